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
    this.chartArea = html('div', { class: 'charts' });
    this.element = html('section', {}, html('h2', {}, this.badge, ' ', this.name), html('p', { class: 'state' }, this.state), this.bar,
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
        this.chartArea.append(root);
        return new Chart(root, data);
      });
    } else this.charts.forEach((chart, at) => chart.update(run.charts[at]));
  }
}

// The table of all runs, and their curves over each other.
class Overview {
  constructor() {
    this.table = html('table', {});
    this.chartArea = html('div', { class: 'charts' });
    this.charts = new Map();
    this.element = html('section', {}, html('div', { class: 'scroll', tabindex: 0 }, this.table), this.chartArea);
  }

  update(runs) {
    this.element.hidden = runs.length < 2;
    const cell = (text, attributes = {}) => html('td', attributes, text);
    const head = html('tr', {}, ...['run', 'state', 'done', 'loss', 'held-out or score'].map(name => html('th', {}, name)));
    const rows = runs.map((run, number) => {
      const figures = run.figures || [];
      const value = pattern => (figures.find(figure => pattern.test(figure.name)) || { value: '' }).value;
      const share = run.steps ? `${Math.floor(100 * run.step / run.steps)} %` : '';
      return html('tr', {}, html('td', {}, colored(html('span', { class: 'dot' }), seriesColor(number)), run.name), cell(run.state || 'waiting'),
        cell(share, { class: 'n' }), cell(value(/^(masked LM|training) loss/), { class: 'n' }), cell(value(/^(held-out loss|score|mean)/), { class: 'n' }));
    });
    this.table.replaceChildren(head, ...rows);
    const joint = new Map();
    runs.forEach((run, number) => (run.charts || []).forEach(data => {
      const curve = data.curves.find(one => one.line === 'plain');
      if (!curve) return;
      const whole = joint.get(data.y) || { ...data, curves: [], levels: [] };
      whole.curves.push({ ...curve, name: run.name, color: seriesColor(number) });
      joint.set(data.y, whole);
    }));
    for (const [name, data] of joint) {
      if (data.curves.length < 2) continue;
      if (this.charts.has(name)) this.charts.get(name).update(data);
      else {
        const root = html('div', { class: 'chart' });
        this.chartArea.append(root);
        this.charts.set(name, new Chart(root, data));
      }
    }
  }
}

// Returns the colour of a run; no two runs have the same.
function seriesColor(number) {
  return number < 10 ? `var(--s${number})` : `hsl(${((number * 137.508) % 360).toFixed(1)} 60% var(--lightness))`;
}

const panels = new Map();
const overview = new Overview();
const place = document.getElementById('runs');
place.append(overview.element);
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
  overview.update(runs);
  if (charts.length && !document.querySelector('.axes')) place.before(controls());
  const result = document.querySelector('.verdict p');
  result.textContent = runs.map(run => `${run.name}: ${run.error || run.state_text}`).slice(0, 3).join('; ');
  const running = runs.filter(run => run.state === 'running').length;
  document.title = `${running} of ${runs.length} running`;
}

const events = new EventSource('/events');
events.addEventListener('message', event => {
  show(JSON.parse(event.data));
  connection.textContent = 'live';
});
events.addEventListener('error', () => { connection.textContent = 'bert watch has ended; the page shows its last state'; });
