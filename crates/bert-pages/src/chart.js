// Draws charts of curves over steps: values under the pointer, zoom, logarithmic axes, smoothing, and other x axes.

const SVG = 'http://www.w3.org/2000/svg';
const MARGIN = { top: 12, right: 14, bottom: 40 };

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function html(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

// Formats a number with at most four significant digits, or as an integer with commas.
function figure(value) {
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, 'e');
  if (Number.isInteger(value) || size >= 1e4) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(4)));
}

// Returns round values between two limits.
function roundValues(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(factor => factor * power).find(value => value >= rough);
  const values = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n += 1) values.push(Number((n * step).toPrecision(12)));
  return values;
}

// Returns 1, 2 and 5 times powers of ten between two limits, fewer if they are many.
function logValues(low, high) {
  const factors = Math.log10(high / low) > 4 ? [1] : [1, 2, 5];
  const values = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) values.push(value);
    }
  }
  return values.length < 2 ? roundValues(low, high, 4) : values;
}

// Returns the mean over the values around each value.
function smoothed(values, window) {
  const half = Math.floor(window / 2);
  const sums = [0];
  values.forEach(value => sums.push(sums[sums.length - 1] + value));
  return values.map((_, at) => {
    const [start, end] = [Math.max(0, at - half), Math.min(values.length, at + half + 1)];
    return (sums[end] - sums[start]) / (end - start);
  });
}

// Returns the index of the value nearest to x in ascending values.
function nearest(values, x) {
  let [low, high] = [0, values.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(values[low] - x) <= Math.abs(values[high] - x) ? low : high;
}

// Converts steps to another x axis.
function convert(steps, scale, unit) {
  if (unit === 'hours') {
    const [known, hours] = scale.hours;
    return steps.map(step => {
      let after = known.findIndex(value => value >= step);
      if (after < 0) after = known.length - 1;
      const before = Math.max(0, after - 1);
      const share = known[after] === known[before] ? 1 : (step - known[before]) / (known[after] - known[before]);
      return hours[before] + share * (hours[after] - hours[before]);
    });
  }
  return unit === 'step' ? steps : steps.map(step => step * scale[unit]);
}

class Chart {
  constructor(root, data) {
    Object.assign(this, { root, unit: 'step', logX: false, logY: false, share: 5, zoom: null, at: null });
    this.legend = html('p', { class: 'legend' });
    this.readout = html('p', { class: 'values', 'aria-live': 'polite' });
    this.plot = html('div', {
      class: 'plot', tabindex: 0, role: 'img', onpointerdown: event => this.press(event), onpointermove: event => this.point(event),
      onpointerup: event => this.release(event), onpointerleave: () => { this.at = null; this.draw(); },
      ondblclick: () => this.setZoom(null), onkeydown: event => this.key(event),
    });
    this.set(data);
    root.replaceChildren(this.legend, this.plot, this.readout, this.controls());
    this.draw();
    new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
  }

  // Replaces the data, and keeps axes and zoom.
  set(data) {
    this.data = data;
    this.plot.setAttribute('aria-label', `${data.y} by ${data.x}. Arrow keys show values, + and - zoom, 0 shows all.`);
  }

  update(data) {
    this.set(data);
    this.draw();
  }

  controls() {
    const box = (name, key) => html('label', {}, html('input', {
      type: 'checkbox', onchange: event => { this[key] = event.target.checked; this.zoom = null; this.draw(); },
    }), ` ${name}`);
    const button = (text, name, action) => html('button', { type: 'button', title: name, 'aria-label': name, onclick: action }, text);
    const parts = [box('log x', 'logX'), box('log y', 'logY')];
    const scales = this.data.curves.map(curve => curve.scale).filter(Boolean);
    if (scales.length) {
      const units = ['step', 'sequences', 'tokens', 'hours'].filter(unit => unit === 'step'
        || scales.every(scale => (unit === 'hours' ? scale.hours[0].length > 1 : scale[unit])));
      const options = units.map(unit => html('option', { value: unit }, unit === 'step' ? 'steps' : unit));
      parts.unshift(html('label', {}, 'x ', html('select', {
        'aria-label': 'x axis', onchange: event => { this.unit = event.target.value; this.zoom = null; this.draw(); },
      }, ...options)));
    }
    if (this.data.curves.some((_, at) => this.isSmoothing(at))) {
      parts.push(html('label', {}, 'smoothing ', html('input', {
        type: 'range', min: 0, max: 25, value: this.share, oninput: event => { this.share = Number(event.target.value); this.draw(); },
      })));
    }
    parts.push(html('span', { class: 'buttons' }, button('+', 'zoom in', () => this.zoomBy(0.5)), button('−', 'zoom out', () => this.zoomBy(2)),
      button('all', 'show all', () => this.setZoom(null))));
    return html('div', { class: 'axes' }, ...parts);
  }

  // A plain curve after a pale one is its mean.
  isSmoothing(at) {
    const { curves } = this.data;
    return at > 0 && curves[at].line === 'plain' && curves[at - 1].line === 'pale';
  }

  // Returns the curves with their x values in the chosen unit, smoothed, and cut to what the axes can show.
  curves() {
    return this.data.curves.map((curve, at) => {
      const source = this.isSmoothing(at) ? this.data.curves[at - 1] : curve;
      const window = Math.round(source.ys.length * this.share / 100);
      const ys = this.isSmoothing(at) ? smoothed(source.ys, Math.max(1, window)) : source.ys;
      const xs = source.scale ? convert(source.xs, source.scale, this.unit) : source.xs;
      const keep = xs.map((x, i) => (!this.logX || x > 0) && (!this.logY || ys[i] > 0));
      return { ...curve, xs: xs.filter((_, i) => keep[i]), ys: ys.filter((_, i) => keep[i]) };
    });
  }

  // Returns the limits of both axes; pale curves do not widen the y axis.
  limits(curves) {
    const all = curves.flatMap(curve => curve.xs);
    const whole = this.logX ? [Math.min(...all), Math.max(...all)] : [Math.min(0, ...all), Math.max(...all)];
    this.whole = whole[0] < whole[1] ? whole : [whole[0] - 0.5, whole[0] + 0.5];
    const x = this.zoom || this.whole;
    const solid = curves.filter(curve => curve.line !== 'pale');
    const values = (solid.some(curve => curve.ys.length) ? solid : curves)
      .flatMap(curve => curve.ys.filter((_, at) => curve.xs[at] >= x[0] && curve.xs[at] <= x[1]));
    let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    if (this.logY) return { x, y: low < high ? [low / 1.05, high * 1.05] : [low / 1.5, high * 1.5] };
    const margin = Math.max(0.07 * (high - low), 1e-3 * Math.abs(high), 1e-9);
    if (low >= 0) low = Math.max(0, low - margin);
    else low -= margin;
    return { x, y: [low, high + margin] };
  }

  draw() {
    const curves = this.curves();
    if (!curves.some(curve => curve.xs.length)) {
      this.plot.replaceChildren(html('p', { class: 'note' }, 'No points to draw yet.'));
      return;
    }
    this.drawn = curves;
    const { x, y } = this.limits(curves);
    this.width = this.plot.clientWidth || 600;
    this.height = this.width < 520 ? 250 : 320;
    const ticks = this.logY ? logValues(...y) : roundValues(...y, 5);
    this.left = 30 + Math.max(...ticks.map(value => figure(value).length)) * 7;
    const bottom = this.height - MARGIN.bottom;
    const right = this.width - MARGIN.right;
    const scale = (log, [low, high], from, to) => {
      const f = log ? Math.log : value => value;
      return value => from + (to - from) * (f(value) - f(low)) / (f(high) - f(low));
    };
    this.xAt = scale(this.logX, x, this.left, right);
    this.yAt = scale(this.logY, y, bottom, MARGIN.top);
    this.limitsNow = { x, y };
    const picture = svg('svg', { viewBox: `0 0 ${this.width} ${this.height}`, width: this.width, height: this.height });
    const text = (content, attributes) => svg('text', attributes, content);
    for (const value of ticks) {
      picture.append(svg('line', { x1: this.left, x2: right, y1: this.yAt(value), y2: this.yAt(value) }),
        text(figure(value), { x: this.left - 6, y: this.yAt(value), dy: 4, 'text-anchor': 'end' }));
    }
    this.xTicks(x).forEach(value => {
      const label = figure(value);
      const at = Math.min(this.xAt(value), this.width - label.length * 3.6 - 2);
      picture.append(text(label, { x: at, y: bottom + 17, 'text-anchor': 'middle' }));
    });
    const name = { step: this.data.x, sequences: 'sequences', tokens: 'tokens', hours: 'hours' }[this.unit];
    picture.append(text(name, { x: (this.left + right) / 2, y: this.height - 5, 'text-anchor': 'middle' }),
      text(this.data.y, { transform: `translate(12 ${(MARGIN.top + bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' }));
    this.addCurves(picture, curves, right, bottom);
    this.addLevels(picture, y, right, bottom);
    this.addMarker(picture, curves, bottom);
    this.plot.replaceChildren(picture);
    this.legend.replaceChildren(...curves.filter(curve => curve.name).map(curve => {
      const entry = html('span', { class: curve.line }, curve.name);
      entry.style.setProperty('--color', curve.color);
      return entry;
    }));
  }

  xTicks(x) {
    const count = Math.max(2, Math.floor(this.width / 110));
    const ticks = this.logX ? logValues(...x) : roundValues(...x, count);
    const every = Math.ceil(ticks.length / (count + 1));
    return ticks.filter((_, at) => at % every === 0);
  }

  addCurves(picture, curves, right, bottom) {
    // A nested picture cuts off what is outside the axes.
    const inside = svg('svg', {
      x: this.left, y: MARGIN.top, width: right - this.left, height: bottom - MARGIN.top,
      viewBox: `${this.left} ${MARGIN.top} ${right - this.left} ${bottom - MARGIN.top}`,
    });
    for (const curve of curves) {
      const points = curve.xs.map((value, at) => `${this.xAt(value).toFixed(1)},${this.yAt(curve.ys[at]).toFixed(1)}`);
      const group = svg('g', { class: curve.line }, svg('polyline', { points: points.join(' ') }));
      group.style.setProperty('--color', curve.color);
      if (curve.line === 'marked') {
        curve.xs.forEach((value, at) => group.append(svg('circle', { cx: this.xAt(value), cy: this.yAt(curve.ys[at]), r: 3 })));
      }
      inside.append(group);
    }
    picture.append(inside);
  }

  // Draws reference levels, and names those outside the axes at the edge.
  addLevels(picture, y, right, bottom) {
    const edges = { above: [], below: [] };
    for (const [name, value] of this.data.levels) {
      const label = `${name} ${figure(Number(value.toPrecision(4)))}`;
      if (value > y[1]) edges.above.push(`${label} ↑`);
      else if (value < y[0]) edges.below.push(`${label} ↓`);
      else {
        const at = this.yAt(value);
        picture.append(svg('line', { class: 'level', x1: this.left, x2: right, y1: at, y2: at }),
          svg('text', { class: 'halo', x: right, y: at, dy: at < MARGIN.top + 16 ? 14 : -5, 'text-anchor': 'end' }, label));
      }
    }
    edges.above.forEach((label, at) => picture.append(svg('text', { class: 'halo', x: right, y: MARGIN.top + 11 + 16 * at, 'text-anchor': 'end' }, label)));
    edges.below.forEach((label, at) => picture.append(svg('text', { class: 'halo', x: right, y: bottom - 5 - 16 * at, 'text-anchor': 'end' }, label)));
  }

  // Draws the vertical line under the pointer, and writes the values at it.
  addMarker(picture, curves, bottom) {
    if (this.drag) {
      const [from, to] = [this.drag.from, this.drag.to].sort((a, b) => a - b);
      picture.append(svg('rect', { class: 'drag', x: from, y: MARGIN.top, width: to - from, height: bottom - MARGIN.top }));
    }
    if (this.at === null) {
      this.readout.textContent = this.zoom ? 'Double click or “all” shows everything.' : 'Point at the chart for values; drag to zoom.';
      return;
    }
    const values = [];
    let x = null;
    for (const curve of curves.filter(one => one.xs.length && one.name)) {
      const at = nearest(curve.xs, this.at);
      x = x === null ? curve.xs[at] : x;
      const far = Math.abs(curve.xs[at] - x) > 0.02 * (this.whole[1] - this.whole[0]);
      values.push(`${curve.name} ${figure(Number(curve.ys[at].toPrecision(4)))}${far ? ` (at ${figure(curve.xs[at])})` : ''}`);
      const mark = svg('circle', { cx: this.xAt(curve.xs[at]), cy: this.yAt(curve.ys[at]), r: 4 });
      mark.style.fill = curve.color;
      picture.append(mark);
    }
    if (x === null) [x] = [this.at];
    picture.append(svg('line', { class: 'cross', x1: this.xAt(x), x2: this.xAt(x), y1: MARGIN.top, y2: bottom }));
    const unit = this.unit === 'step' ? this.data.x : this.unit;
    this.readout.textContent = `${unit} ${figure(x)}: ${values.join(', ')}`;
  }

  // Returns the x value at a pointer's position.
  valueAt(pixel) {
    const { x } = this.limitsNow;
    const share = Math.min(1, Math.max(0, (pixel - this.left) / (this.width - MARGIN.right - this.left)));
    return this.logX ? x[0] * (x[1] / x[0]) ** share : x[0] + share * (x[1] - x[0]);
  }

  pixel(event) {
    return event.clientX - this.plot.getBoundingClientRect().left;
  }

  press(event) {
    if (event.pointerType === 'mouse' && event.button === 0) this.drag = { from: this.pixel(event), to: this.pixel(event) };
    this.point(event);
  }

  point(event) {
    if (!this.limitsNow) return;
    if (this.drag) this.drag.to = this.pixel(event);
    this.at = this.valueAt(this.pixel(event));
    this.draw();
  }

  release(event) {
    const { drag } = this;
    this.drag = null;
    if (drag && Math.abs(drag.to - drag.from) > 8) this.setZoom([drag.from, this.pixel(event)].map(pixel => this.valueAt(pixel)).sort((a, b) => a - b));
  }

  setZoom(zoom) {
    this.zoom = zoom && zoom[0] < zoom[1] ? zoom : null;
    this.draw();
  }

  // Zooms around the marked value, or else towards the end.
  zoomBy(factor) {
    if (!this.limitsNow) return;
    const [low, high] = this.limitsNow.x;
    const [first, last] = this.whole;
    const center = this.at === null ? high : this.at;
    const zoom = [Math.max(first, center - (center - low) * factor), Math.min(last, center + (high - center) * factor)];
    this.setZoom(zoom[0] <= first && zoom[1] >= last ? null : zoom);
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    const factors = { '+': 0.5, '-': 2 };
    if (event.key in factors) this.zoomBy(factors[event.key]);
    else if (event.key === '0') this.setZoom(null);
    else if (event.key in moves && this.limitsNow) {
      const [low, high] = this.limitsNow.x;
      const at = this.at === null ? high : this.at + moves[event.key] * (high - low) / 60;
      this.at = Math.min(high, Math.max(low, at));
      this.draw();
    } else return;
    event.preventDefault();
  }
}

document.querySelectorAll('.chart').forEach(root => new Chart(root, JSON.parse(root.querySelector('script').textContent)));
