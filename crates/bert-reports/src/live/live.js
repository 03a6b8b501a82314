// Shows the states of runs as the server sends them.

const WORDS = { running: 'running', stopped: 'stopped', finished: 'finished' };

class RunPanel {
  constructor() {
    this.badge = html('span', { class: 'badge' });
    this.name = html('a', {});
    this.state = html('span', { class: 's' });
    this.bar = html('progress', { max: 1, value: 0 });
    this.figures = html('div', { class: 'tiles' });
    this.findings = html('ul', { class: 'findings' });
    this.charts = [];
    this.chartArea = html('div', {});
    this.element = html('section', {}, html('h2', {}, this.badge, ' ', this.name), html('p', {}, this.state), this.bar,
      this.figures, this.findings, this.chartArea);
  }

  update(run, number) {
    this.name.textContent = run.name;
    this.badge.textContent = WORDS[run.state] || 'waiting';
    this.badge.dataset.state = run.state || 'waiting';
    this.bar.hidden = !run.steps;
    if (run.error) {
      this.state.textContent = run.error;
      return;
    }
    this.name.href = `/report/${number}`;
    this.name.title = 'the whole report';
    const share = run.steps ? run.step / run.steps : 0;
    const count = value => value.toLocaleString('en-US');
    this.state.textContent = `${run.kind}, ${run.state_text}${run.steps ? `: ${count(run.step)} of ${count(run.steps)} steps (${Math.floor(100 * share)} %)` : ''}`;
    this.bar.value = share;
    this.bar.setAttribute('aria-label', `${Math.floor(100 * share)} %`);
    this.figures.replaceChildren(...run.figures.map(figure => html('div', { class: 'tile' }, figure.name, html('b', {}, figure.value))));
    this.findings.replaceChildren(...run.findings.map(finding => html('li', { class: finding.severity }, finding.text)));
    if (this.charts.length !== run.charts.length) {
      this.chartArea.replaceChildren();
      this.charts = run.charts.map(data => {
        const root = html('div', { class: 'chart' });
        this.chartArea.append(html('h3', {}, data.y), root);
        return new Chart(root, data);
      });
    } else this.charts.forEach((chart, at) => chart.update(run.charts[at]));
  }
}

const panels = new Map();
const place = document.getElementById('runs');
const connection = document.getElementById('connection');

function show(runs) {
  runs.forEach((run, number) => {
    if (!panels.has(run.name)) {
      const panel = new RunPanel();
      panels.set(run.name, panel);
      place.append(panel.element);
    }
    panels.get(run.name).update(run, number);
  });
  for (const [name, panel] of panels) {
    if (!runs.some(run => run.name === name)) {
      panel.element.remove();
      panels.delete(name);
    }
  }
  const running = runs.filter(run => run.state === 'running').length;
  document.title = `${running} of ${runs.length} running`;
}

const events = new EventSource('/events');
events.addEventListener('message', event => {
  show(JSON.parse(event.data));
  connection.textContent = 'live';
});
events.addEventListener('error', () => { connection.textContent = 'bert watch has ended; the page shows its last state'; });
