// The controls of the page and its state.

// Width of a page with two views next to each other.
const WIDE = 1100;
const VIEWS = [['heads', 'Heads', HeadView], ['model', 'Model', ModelView], ['neurons', 'Neurons', NeuronView]];

class App {
  constructor(models, root) {
    this.models = models;
    const first = models[0];
    this.layers = [...new Set(models.flatMap(model => model.layers))].sort((a, b) => a - b);
    this.headNumbers = [...new Set(models.flatMap(model => model.heads))].sort((a, b) => a - b);
    this.state = {
      view: 'heads', layer: first.layers[0], heads: new Set(this.headNumbers), head: first.heads[0], filter: 'all', words: false,
      focus: null, pinned: null, big: { layer: first.layers[0], head: first.heads[0] }, pair: { query: Math.min(1, first.count - 1), key: 0 },
    };
    this.panels = models.map(model => {
      const views = VIEWS.map(([, , View]) => new View(model, this));
      const element = make('section', { class: 'panel', 'aria-label': model.name },
        models.length > 1 ? make('h2', {}, model.name) : '', ...views.map(view => view.element),
        make('p', { class: 'note' }, `Weights below ${model.least.toFixed(3)} are drawn as 0.`));
      return { views, element };
    });
    this.bar = make('div', { class: 'controls' }, ...this.controls());
    const panels = make('div', { class: 'panels' }, ...this.panels.map(panel => panel.element));
    root.replaceChildren(this.bar, panels);
    document.addEventListener('keydown', event => this.shortcut(event));
    media.addEventListener('change', () => this.update());
    let width = innerWidth;
    addEventListener('resize', () => {
      if (innerWidth !== width) this.update();
      width = innerWidth;
    });
    this.update();
  }

  controls() {
    const select = (label, options, change) => {
      const element = make('select', { 'aria-label': label, onchange: event => change(event.target.value) },
        ...options.map(([value, text]) => make('option', { value }, text)));
      return [element, make('label', {}, `${label} `, element)];
    };
    const views = make('span', { class: 'choice', role: 'group', 'aria-label': 'view' }, ...VIEWS.map(([name, text]) => make('button', {
      type: 'button', 'data-view': name, onclick: () => this.set({ view: name }),
    }, text)));
    const [layer, layerLabel] = select('Layer', this.layers.map(number => [number, number]), value => this.set({ layer: Number(value) }));
    const [head, headLabel] = select('Head', this.headNumbers.map(number => [number, number]), value => this.set({ head: Number(value) }));
    const filters = [['all', 'all tokens'], ...['AA', 'AB', 'BA', 'BB'].map(name => [name, `${name[0]} → ${name[1]}`])];
    const [filter, filterLabel] = select('Sentences', filters, value => this.set({ filter: value, pinned: null }));
    const units = [['', 'pieces'], ['1', 'words']];
    const [words, wordsLabel] = select('Tokens', units, value => this.set({ words: Boolean(value), pinned: null }));
    Object.assign(this, { layerSelect: layer, headSelect: head, headLabel, filterSelect: filter, wordsSelect: words });
    Object.assign(this, { filterLabel, wordsLabel, layerLabel });
    this.chips = make('div', { class: 'chips', role: 'group', 'aria-label': 'heads' },
      make('button', { type: 'button', class: 'all', onclick: () => this.set({ heads: new Set(this.headNumbers) }) }, 'all'),
      ...this.headNumbers.map(number => make('button', {
        type: 'button', 'data-head': number, title: 'Click: on or off. Double click or Shift+Enter: only this head.',
        onclick: event => (event.shiftKey ? this.only(number) : this.toggle(number)), ondblclick: () => this.only(number),
      }, number)));
    return [views, layerLabel, headLabel, filterLabel, wordsLabel, this.chips];
  }

  // Changes the state and draws the page.
  set(change) {
    Object.assign(this.state, change);
    this.update();
  }

  toggle(head) {
    const heads = new Set(this.state.heads);
    if (!heads.delete(head)) heads.add(head);
    this.set({ heads });
  }

  only(head) {
    this.set({ heads: new Set([head]), head });
  }

  focus(target) {
    this.state.focus = target;
    this.draw();
  }

  pin(target) {
    const { pinned } = this.state;
    const same = pinned && pinned.side === target.side && pinned.at === target.at && pinned.model === target.model;
    this.state.pinned = same ? null : target;
    this.state.focus = null;
    this.draw();
  }

  enlarge(big) {
    this.state.big = big;
    this.draw();
  }

  showLines({ layer, head }) {
    this.set({ view: 'heads', layer, head, heads: new Set([head]) });
  }

  pair(change) {
    Object.assign(this.state.pair, change);
    this.draw();
  }

  // Arrow keys outside a control change the layer; Escape releases the pinned token.
  shortcut(event) {
    if (event.key === 'Escape') {
      this.state.pinned = this.state.focus = null;
      this.draw();
    }
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.target.matches('select, input, canvas, .grid *') || event.ctrlKey || event.altKey || event.metaKey) return;
    const next = this.layers[this.layers.indexOf(this.state.layer) + step];
    if (next !== undefined && this.state.view !== 'model') {
      event.preventDefault();
      this.set({ layer: next });
    }
  }

  current() {
    return VIEWS.findIndex(([name]) => name === this.state.view);
  }

  // Returns the numbers of the views on the page: a wide one has the heads next to the thumbnails.
  shown() {
    const at = this.current();
    return at === 0 && this.panels.length === 1 && innerWidth >= WIDE ? [0, 1] : [at];
  }

  update() {
    const { state } = this;
    const shown = this.shown();
    for (const button of this.bar.querySelectorAll('[data-view]')) button.setAttribute('aria-pressed', button.dataset.view === state.view);
    for (const button of this.chips.querySelectorAll('[data-head]')) {
      button.setAttribute('aria-pressed', state.heads.has(Number(button.dataset.head)));
      button.style.setProperty('--color', headColor(this.headNumbers.indexOf(Number(button.dataset.head)), this.headNumbers.length));
    }
    [this.layerSelect.value, this.headSelect.value, this.filterSelect.value] = [state.layer, state.head, state.filter];
    this.layerLabel.hidden = state.view === 'model';
    this.chips.hidden = state.view !== 'heads';
    const choosesUnits = state.view !== 'neurons';
    this.filterLabel.hidden = !(choosesUnits && this.models.some(model => model.isPair));
    this.wordsLabel.hidden = !(choosesUnits && this.models.some(model => model.hasWords));
    this.headLabel.hidden = state.view !== 'neurons';
    this.panels.forEach(panel => panel.views.forEach((view, at) => { view.element.hidden = !shown.includes(at); }));
    this.panels.forEach(panel => panel.element.classList.toggle('both', shown.length > 1));
    this.panels.forEach(panel => shown.forEach(at => panel.views[at].update(state)));
  }

  draw() {
    this.panels.forEach(panel => this.shown().forEach(at => panel.views[at].draw(this.state)));
  }
}

readModels().then(models => { new App(models, document.getElementById('app')); });
