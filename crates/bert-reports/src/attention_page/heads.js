// Head view: lines between queries on the left and keys on the right, one colour for each head.

const ROW = 26;
const LEAST_LINE = 0.01;
const SHADES = 12;

class HeadView {
  constructor(model, app) {
    Object.assign(this, { model, app });
    this.lists = ['query', 'key'].map(side => make('ol', {
      class: `tokens ${side === 'query' ? 'from' : 'to'}`, 'aria-label': side === 'query' ? 'queries' : 'keys',
      onpointerover: event => event.pointerType === 'mouse' && this.point(event),
      onfocusin: event => event.target.matches(':focus-visible') && this.point(event),
      onclick: event => this.pin(event), onkeydown: event => this.move(event),
    }));
    this.canvas = make('canvas', { 'aria-hidden': 'true' });
    this.readout = make('p', { class: 'readout', 'aria-live': 'polite' });
    const lines = make('div', { class: 'lines', onpointerleave: () => app.focus(null) },
      make('span', { class: 's' }, 'from'), make('span'), make('span', { class: 's' }, 'to'),
      this.lists[0], this.canvas, this.lists[1]);
    this.element = make('div', {}, this.readout, lines);
  }

  // Returns the side and the unit of the token that an event is about.
  target(event) {
    const button = event.target.closest('button');
    return button && { side: button.dataset.side, at: Number(button.dataset.at), model: this.model };
  }

  point(event) {
    const target = this.target(event);
    if (target) this.app.focus(target);
  }

  pin(event) {
    const target = this.target(event);
    if (target) this.app.pin(target);
  }

  // Moves the keyboard's focus in a list, or to the other list.
  move(event) {
    const [list, other] = this.lists[0] === event.currentTarget ? this.lists : [...this.lists].reverse();
    if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      event.stopPropagation();
      if ((event.key === 'ArrowRight') === (list === this.lists[0])) other.querySelector('[tabindex="0"]')?.focus();
    }
    const buttons = [...list.querySelectorAll('button')];
    const at = buttons.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -at, End: buttons.length - 1 - at }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = buttons[Math.min(buttons.length - 1, Math.max(0, at + step))];
    buttons.forEach(button => { button.tabIndex = button === next ? 0 : -1; });
    next.focus();
  }

  // Fills both columns and computes the weights of the chosen heads.
  update(state) {
    const { model } = this;
    this.shown = model.shown(state);
    this.layer = model.layers.indexOf(state.layer);
    const layer = this.layer;
    this.chosen = layer < 0 ? [] : range(model.heads.length).filter(head => state.heads.has(model.heads[head]));
    this.matrices = this.chosen.map(head => model.matrix(layer, head, this.shown));
    this.buttons = ['query', 'key'].map((side, column) => {
      const units = column ? this.shown.keys : this.shown.queries;
      const buttons = units.map((unit, at) => make('button', {
        type: 'button', 'data-side': side, 'data-at': unit.at, tabindex: at ? -1 : 0, class: unit.segment ? 'b' : 'a',
        title: unit.label,
      }, make('span', { class: 't' }, unit.label), make('span', { class: 'v' })));
      this.lists[column].replaceChildren(...buttons.map(button => make('li', {}, button)));
      return buttons;
    });
    this.draw(state);
  }

  // Returns the mean weight over the chosen heads for a pair of shown units.
  mean(row, column) {
    const at = row * this.shown.keys.length + column;
    return this.matrices.reduce((sum, matrix) => sum + matrix[at], 0) / Math.max(1, this.matrices.length);
  }

  // Returns the focused unit's column and row, if it is shown here.
  focused(state) {
    const focus = state.focus || state.pinned;
    if (!focus) return null;
    const same = focus.model === this.model || focus.model.tokens.join(' ') === this.model.tokens.join(' ');
    const column = focus.side === 'query' ? 0 : 1;
    const row = (column ? this.shown.keys : this.shown.queries).findIndex(unit => unit.at === focus.at);
    return same && row >= 0 ? { column, row } : null;
  }

  draw(state) {
    const focus = this.focused(state);
    this.drawLines(focus);
    const others = focus ? (focus.column ? this.shown.queries : this.shown.keys) : [];
    const weights = others.map((_, at) => (focus.column ? this.mean(at, focus.row) : this.mean(focus.row, at)));
    this.buttons.forEach((buttons, column) => buttons.forEach((button, row) => {
      const isOther = focus && column !== focus.column;
      const weight = isOther ? weights[row] : 0;
      button.lastChild.textContent = isOther && this.chosen.length ? short(weight) : '';
      button.style.setProperty('--strength', `${Math.round(90 * Math.sqrt(weight))}%`);
      button.classList.toggle('on', Boolean(focus && column === focus.column && row === focus.row));
      button.setAttribute('aria-pressed', Boolean(state.pinned && state.pinned.side === button.dataset.side
        && state.pinned.at === Number(button.dataset.at)));
    }));
    this.say(state, focus, others, weights);
  }

  // Writes the largest weights of the focused token above the lines.
  say(state, focus, others, weights) {
    const heads = this.chosen.length;
    const of = `layer ${state.layer}, ${heads === 1 ? `head ${this.model.heads[this.chosen[0]]}` : `mean of ${heads} heads`}`;
    if (this.layer < 0) this.readout.textContent = `This model has no layer ${state.layer} on this page.`;
    else if (!heads) this.readout.textContent = 'No head is chosen.';
    else if (!focus) this.readout.textContent = `Point at a token or tap it: its weights in ${of}.`;
    else {
      const unit = (focus.column ? this.shown.keys : this.shown.queries)[focus.row];
      const order = range(others.length).sort((a, b) => weights[b] - weights[a]).slice(0, 4);
      const list = order.map(at => `${others[at].label} ${short(weights[at])}`).join(', ');
      const relation = focus.column ? 'gets most from' : 'attends most to';
      this.readout.textContent = `${unit.label} ${relation} ${list} (${of})`;
    }
  }

  drawLines(focus) {
    const { queries, keys } = this.shown;
    const width = Math.max(60, this.canvas.parentElement.clientWidth - this.lists[0].offsetWidth - this.lists[1].offsetWidth);
    const drawing = context(this.canvas, width, ROW * Math.max(1, queries.length, keys.length));
    const rows = focus && focus.column === 0 ? [focus.row] : range(queries.length);
    const columns = focus && focus.column === 1 ? [focus.row] : range(keys.length);
    const least = focus ? 0.002 : LEAST_LINE;
    const fade = focus ? 1 : 1 / Math.sqrt(Math.max(1, this.chosen.length));
    drawing.lineWidth = 2;
    this.matrices.forEach((matrix, at) => {
      const paths = range(SHADES + 1).map(() => null);
      for (const row of rows) {
        for (const column of columns) {
          const weight = matrix[row * keys.length + column];
          if (weight < least) continue;
          const shade = Math.max(1, Math.round(SHADES * Math.min(1, weight)));
          const path = paths[shade] || (paths[shade] = new Path2D());
          path.moveTo(0, (row + 0.5) * ROW);
          path.lineTo(width, (column + 0.5) * ROW);
        }
      }
      drawing.strokeStyle = headColor(this.chosen[at], this.model.heads.length);
      paths.forEach((path, shade) => {
        drawing.globalAlpha = fade * shade / SHADES;
        if (path) drawing.stroke(path);
      });
    });
  }
}
