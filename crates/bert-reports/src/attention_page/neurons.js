// Neuron view: query, key and their product for each dimension of a head, for a pair of tokens.

const BAND = 76;

class NeuronView {
  constructor(model, app) {
    Object.assign(this, { model, app, dimension: null });
    const choose = part => make('select', { 'aria-label': part, onchange: event => app.pair({ [part]: Number(event.target.value) }) });
    [this.query, this.key] = [choose('query'), choose('key')];
    this.readout = make('p', { class: 'readout', 'aria-live': 'polite' });
    this.canvas = make('canvas', {
      tabindex: 0, role: 'img', 'aria-label': 'query, key and product by dimension',
      onpointermove: event => this.point(event), onpointerdown: event => this.point(event), onkeydown: event => this.step(event),
    });
    this.keys = make('table', { class: 'keys' });
    this.element = make('div', {}, make('div', { class: 'row' }, make('label', {}, 'query ', this.query), make('label', {}, 'key ', this.key)),
      this.readout, this.canvas, make('div', { class: 'scroll' }, this.keys));
  }

  update(state) {
    const { model } = this;
    const options = () => model.tokens.map((token, at) => make('option', { value: at }, `${at} ${token}`));
    this.query.replaceChildren(...options());
    this.key.replaceChildren(...options());
    this.draw(state);
  }

  draw(state) {
    const { model } = this;
    const layerIndex = model.layers.indexOf(state.layer);
    const layer = model.vectors.layers.indexOf(layerIndex);
    const head = model.heads.indexOf(state.head);
    const present = layer >= 0 && head >= 0;
    for (const element of [this.canvas, this.keys]) element.hidden = !present;
    const limit = at => Math.min(at, model.count - 1);
    this.pair = { query: limit(state.pair.query), key: limit(state.pair.key) };
    [this.query.value, this.key.value] = [this.pair.query, this.pair.key];
    if (!present) {
      const layers = model.vectors.layers.map(at => model.layers[at]).join(', ');
      this.readout.textContent = `This page has the queries and keys of layer ${layers}. Other layers: bert attention --neurons LAYER.`;
      return;
    }
    const root = Math.sqrt(model.vectors.dimensions);
    this.q = model.vector(layer, head, 0, this.pair.query);
    this.vectors = range(model.count).map(key => model.vector(layer, head, 1, key));
    this.scores = this.vectors.map(key => key.reduce((sum, x, at) => sum + x * this.q[at], 0) / root);
    this.k = this.vectors[this.pair.key];
    const n = model.count;
    this.weights = range(n).map(key => model.codes[((layerIndex * model.heads.length + head) * n + key) * n + this.pair.query] / 255);
    this.color = headColor(head, model.heads.length);
    this.dimension = null;
    this.drawBars();
    this.list();
  }

  // Draws three bands of bars; each has a scale of its own.
  drawBars() {
    const product = this.q.map((x, at) => x * this.k[at]);
    const width = Math.max(200, this.element.clientWidth);
    const drawing = context(this.canvas, width, 3 * BAND);
    const step = width / this.q.length;
    drawing.font = '12px system-ui, sans-serif';
    [['query', this.q], ['key', this.k], ['query × key', product]].forEach(([name, values], band) => {
      const middle = band * BAND + BAND / 2 + 7;
      const scale = (BAND / 2 - 11) / Math.max(1e-9, ...values.map(Math.abs));
      drawing.fillStyle = themeColor('--soft');
      drawing.fillText(`${name} (largest ${Math.max(...values.map(Math.abs)).toFixed(2)})`, 0, band * BAND + 11);
      values.forEach((value, at) => {
        drawing.fillStyle = themeColor(value < 0 ? '--b' : '--a');
        drawing.globalAlpha = this.dimension === null || this.dimension === at ? 1 : 0.35;
        drawing.fillRect(at * step, Math.min(middle, middle - value * scale), Math.max(1, step - 1), Math.max(0.5, Math.abs(value * scale)));
      });
      drawing.globalAlpha = 1;
      drawing.fillStyle = themeColor('--line');
      drawing.fillRect(0, middle, width, 1);
    });
    this.say();
  }

  say() {
    const { query, key } = this.pair;
    const { tokens } = this.model;
    const at = this.dimension;
    const sum = `${tokens[query]} to ${tokens[key]}: product / √${this.q.length} = ${this.scores[key].toFixed(2)}, weight ${short(this.weights[key])}`;
    const part = at === null ? '' : `; dimension ${at}: ${this.q[at].toFixed(2)} × ${this.k[at].toFixed(2)} = ${(this.q[at] * this.k[at]).toFixed(2)}`;
    this.readout.textContent = sum + part;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    this.choose(Math.floor((event.clientX - box.left) / box.width * this.q.length));
  }

  step(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(this.dimension === null ? 0 : this.dimension + step);
  }

  choose(dimension) {
    if (dimension < 0 || dimension >= this.q.length) return;
    this.dimension = dimension;
    this.drawBars();
  }

  // Lists every key with its score and its weight.
  list() {
    const heading = make('tr', {}, ...['key', 'score', 'weight', ''].map((name, at) => make('th', { class: at === 1 || at === 2 ? 'n' : false }, name)));
    const rows = this.model.tokens.map((token, at) => {
      const bar = make('span', { class: 'bar' });
      bar.style.setProperty('--share', this.weights[at]);
      bar.style.background = this.color;
      const choose = make('button', { type: 'button', 'aria-pressed': at === this.pair.key, onclick: () => this.app.pair({ key: at }) }, token);
      return make('tr', { class: at === this.pair.key ? 'on' : false }, make('td', {}, choose),
        make('td', { class: 'n' }, this.scores[at].toFixed(2)), make('td', { class: 'n' }, short(this.weights[at])), make('td', {}, bar));
    });
    this.keys.replaceChildren(heading, ...rows);
  }
}
