// Model view: a thumbnail of every head, and one head enlarged as a heat map.

const THUMB = 48;

class ModelView {
  constructor(model, app) {
    Object.assign(this, { model, app, cell: null });
    this.grid = make('div', { class: 'grid', role: 'group', 'aria-label': 'layers and heads', onkeydown: event => this.move(event) });
    this.title = make('h3');
    this.readout = make('p', { class: 'readout', 'aria-live': 'polite' });
    this.map = make('canvas', {
      tabindex: 0, role: 'img',
      onpointermove: event => this.point(event), onpointerdown: event => this.point(event), onkeydown: event => this.step(event),
    });
    const lines = make('button', { type: 'button', onclick: () => app.showLines(this.big) }, 'Show its lines');
    this.enlarged = make('div', { class: 'enlarged' }, make('div', { class: 'row' }, this.title, lines), this.readout,
      make('div', { class: 'scroll' }, this.map));
    this.element = make('div', {}, make('div', { class: 'scroll' }, this.grid), this.enlarged);
  }

  update(state) {
    const { model } = this;
    const heads = model.heads.length;
    this.shown = model.shown(state);
    this.grid.style.setProperty('--heads', heads);
    const label = text => make('span', { class: 's' }, text);
    this.thumbs = [];
    const rows = model.layers.flatMap((number, layer) => [label(number), ...model.heads.map((name, head) => {
      const canvas = make('canvas', { width: THUMB, height: THUMB, 'aria-hidden': 'true' });
      const button = make('button', {
        type: 'button', 'aria-label': `layer ${number}, head ${name}`, title: `layer ${number}, head ${name}`,
        tabindex: this.thumbs.length ? -1 : 0, onclick: () => this.app.enlarge({ layer: number, head: name }),
      }, canvas);
      this.thumbs.push({ button, canvas, layer, head });
      return button;
    })]);
    this.grid.replaceChildren(label(''), ...model.heads.map(label), ...rows);
    this.drawThumbs(0);
    this.draw(state);
  }

  // Draws the thumbnails layer by layer, so that the page stays responsive.
  drawThumbs(layer) {
    const { thumbs } = this;
    for (const thumb of thumbs.filter(one => one.layer === layer)) this.drawThumb(thumb);
    if (layer + 1 < this.model.layers.length) requestAnimationFrame(() => this.thumbs === thumbs && this.drawThumbs(layer + 1));
  }

  // Draws the largest weight of the pairs that fall on a pixel.
  drawThumb({ canvas, layer, head }) {
    const { queries, keys } = this.shown;
    const matrix = this.model.matrix(layer, head, this.shown);
    const [height, width] = [queries, keys].map(units => Math.max(1, Math.min(THUMB, units.length)));
    canvas.width = width;
    canvas.height = height;
    const drawing = canvas.getContext('2d');
    drawing.fillStyle = headColor(head, this.model.heads.length);
    drawing.fillRect(0, 0, 1, 1);
    const [red, green, blue] = drawing.getImageData(0, 0, 1, 1).data;
    const image = drawing.createImageData(width, height);
    const largest = new Float32Array(width * height);
    const across = range(keys.length).map(column => Math.floor(column * width / keys.length));
    let at = 0;
    for (let row = 0; row < queries.length; row += 1) {
      const down = Math.floor(row * height / queries.length) * width;
      for (let column = 0; column < keys.length; column += 1, at += 1) {
        const pixel = down + across[column];
        if (matrix[at] > largest[pixel]) largest[pixel] = matrix[at];
      }
    }
    largest.forEach((weight, pixel) => image.data.set([red, green, blue, 255 * Math.sqrt(weight)], 4 * pixel));
    drawing.putImageData(image, 0, 0);
  }

  // Moves the keyboard's focus from thumbnail to thumbnail.
  move(event) {
    const heads = this.model.heads.length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads }[event.key];
    const at = this.thumbs.findIndex(thumb => thumb.button === document.activeElement);
    const next = this.thumbs[at + step];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    this.thumbs.forEach(thumb => { thumb.button.tabIndex = thumb === next ? 0 : -1; });
    next.button.focus();
  }

  // Draws the enlarged head.
  draw(state) {
    const big = state.big;
    this.big = big;
    const [layer, head] = [this.model.layers.indexOf(big.layer), this.model.heads.indexOf(big.head)];
    this.thumbs.forEach(thumb => thumb.button.setAttribute('aria-pressed', thumb.layer === layer && thumb.head === head));
    this.title.textContent = `Layer ${big.layer}, head ${big.head}`;
    this.enlarged.hidden = layer < 0 || head < 0;
    if (this.enlarged.hidden) return;
    this.matrix = this.model.matrix(layer, head, this.shown);
    this.color = headColor(head, this.model.heads.length);
    this.cell = null;
    this.drawMap();
  }

  drawMap() {
    const { queries, keys } = this.shown;
    const most = Math.max(queries.length, keys.length, 1);
    const named = most <= 160;
    this.size = named ? 18 : Math.max(2, Math.floor(2400 / most));
    this.margin = named ? 96 : 0;
    const { size, margin } = this;
    const drawing = context(this.map, margin + keys.length * size, queries.length * size + margin);
    const grid = themeColor('--line');
    drawing.fillStyle = this.color;
    this.matrix.forEach((weight, at) => {
      drawing.globalAlpha = Math.sqrt(weight);
      drawing.fillRect(margin + (at % keys.length) * size, Math.floor(at / keys.length) * size, size, size);
    });
    drawing.globalAlpha = 1;
    drawing.strokeStyle = grid;
    drawing.strokeRect(margin + 0.5, 0.5, keys.length * size - 1, queries.length * size - 1);
    if (named) this.drawNames(drawing);
    if (this.cell) {
      drawing.strokeStyle = themeColor('--ink');
      drawing.lineWidth = 2;
      drawing.strokeRect(margin + this.cell.column * size, this.cell.row * size, size, size);
    }
    this.say();
  }

  drawNames(drawing) {
    const { queries, keys } = this.shown;
    drawing.fillStyle = themeColor('--ink');
    drawing.font = '12px ui-monospace, monospace';
    drawing.textBaseline = 'middle';
    const cut = label => ([...label].length > 12 ? `${[...label].slice(0, 11).join('')}…` : label);
    drawing.textAlign = 'right';
    queries.forEach((unit, row) => drawing.fillText(cut(unit.label), this.margin - 6, (row + 0.5) * this.size));
    keys.forEach((unit, column) => {
      drawing.save();
      drawing.translate(this.margin + (column + 0.5) * this.size, queries.length * this.size + 6);
      drawing.rotate(-Math.PI / 2);
      drawing.fillText(cut(unit.label), 0, 0);
      drawing.restore();
    });
  }

  point(event) {
    const box = this.map.getBoundingClientRect();
    this.select(Math.floor((event.clientY - box.top) / this.size), Math.floor((event.clientX - box.left - this.margin) / this.size));
  }

  step(event) {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const { row, column } = this.cell || { row: 0, column: 0 };
    if (this.cell) this.select(row + move[0], column + move[1]);
    else this.select(row, column);
  }

  select(row, column) {
    const { queries, keys } = this.shown;
    if (row < 0 || column < 0 || row >= queries.length || column >= keys.length) return;
    this.cell = { row, column };
    this.drawMap();
  }

  say() {
    const { queries, keys } = this.shown;
    if (!this.cell) {
      this.readout.textContent = 'Rows are queries, columns keys. Point at a cell, tap it, or use the arrow keys.';
      return;
    }
    const { row, column } = this.cell;
    const weight = short(this.matrix[row * keys.length + column]);
    this.readout.textContent = `${queries[row].label} attends to ${keys[column].label}: ${weight}`;
    this.map.setAttribute('aria-label', this.readout.textContent);
  }
}
