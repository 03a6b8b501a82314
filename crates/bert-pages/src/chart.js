// Draws charts of curves over steps: values at the pointer, zoom, and one bar for the axes and the smoothing of all charts.

const SVG = 'http://www.w3.org/2000/svg';
const MARGIN = { top: 12, right: 14, bottom: 40 };
// Height of a name at the end of a line.
const ROW = 15;
// The choices of the bar.
const axes = { unit: 'step', logX: false, logY: false, share: 5 };
const charts = [];

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

// Sets the colour of an element and returns the element.
function colored(element, color) {
  element.style.setProperty('--color', color);
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

// Returns the bar for all charts.
function controls() {
  const change = action => event => { action(event.target); charts.forEach(chart => { chart.zoom = null; chart.draw(); }); };
  const box = (name, key) => html('label', {}, html('input', { type: 'checkbox', onchange: change(input => { axes[key] = input.checked; }) }), ` ${name}`);
  const parts = [box('log x', 'logX'), box('log y', 'logY')];
  const scales = charts.flatMap(chart => chart.data.curves.map(curve => curve.scale)).filter(Boolean);
  if (scales.length) {
    const units = ['step', 'sequences', 'tokens', 'hours'].filter(unit => unit === 'step'
      || scales.every(scale => (unit === 'hours' ? scale.hours[0].length > 1 : scale[unit])));
    const options = units.map(unit => html('option', { value: unit }, unit === 'step' ? 'steps' : unit));
    parts.unshift(html('label', {}, 'x axis ', html('select', {
      'aria-label': 'x axis', onchange: change(select => { axes.unit = select.value; }),
    }, ...options)));
  }
  if (charts.some(chart => chart.data.curves.some((_, at) => chart.isSmoothing(at)))) {
    parts.push(html('label', {}, 'smoothing ', html('input', {
      type: 'range', min: 0, max: 25, value: axes.share, oninput: change(input => { axes.share = Number(input.value); }),
    })));
  }
  const button = (text, name, action) => html('button', { type: 'button', title: name, 'aria-label': name, onclick: () => charts.forEach(action) }, text);
  parts.push(button('+', 'zoom in', chart => chart.zoomBy(0.5)), button('−', 'zoom out', chart => chart.zoomBy(2)), button('all', 'show all', chart => chart.setZoom(null)),
    html('span', {}, 'Point for values; drag to zoom.'));
  return html('div', { class: 'axes' }, ...parts);
}

class Chart {
  constructor(root, data) {
    Object.assign(this, { root, zoom: null, at: null });
    this.legend = html('p', { class: 'legend' });
    this.tip = html('div', { class: 'tip', hidden: true, 'aria-live': 'polite' });
    this.title = html('h3', {});
    this.plot = html('div', {
      class: 'plot', tabindex: 0, role: 'img', onpointerdown: event => this.press(event), onpointermove: event => this.point(event),
      onpointerup: event => this.release(event), onpointerleave: () => { this.at = null; this.draw(); },
      ondblclick: () => this.setZoom(null), onkeydown: event => this.key(event),
    });
    this.set(data);
    root.replaceChildren(this.title, this.legend, this.plot);
    charts.push(this);
    this.draw();
    new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
  }

  // Replaces the data, and keeps axes and zoom.
  set(data) {
    this.data = data;
    this.title.textContent = data.y;
    this.plot.setAttribute('aria-label', `${data.y} by ${data.x}. Arrow keys show values, + and - zoom, 0 shows all.`);
  }

  update(data) {
    this.set(data);
    this.draw();
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
      const window = Math.round(source.ys.length * axes.share / 100);
      const ys = this.isSmoothing(at) ? smoothed(source.ys, Math.max(1, window)) : source.ys;
      const xs = source.scale ? convert(source.xs, source.scale, axes.unit) : source.xs;
      const keep = xs.map((x, i) => (!axes.logX || x > 0) && (!axes.logY || ys[i] > 0));
      return { ...curve, xs: xs.filter((_, i) => keep[i]), ys: ys.filter((_, i) => keep[i]) };
    });
  }

  // Returns the limits of both axes; pale curves do not widen the y axis.
  limits(curves) {
    const all = curves.flatMap(curve => curve.xs);
    const whole = axes.logX ? [Math.min(...all), Math.max(...all)] : [Math.min(0, ...all), Math.max(...all)];
    this.whole = whole[0] < whole[1] ? whole : [whole[0] - 0.5, whole[0] + 0.5];
    const x = this.zoom || this.whole;
    const solid = curves.filter(curve => curve.line !== 'pale');
    const values = (solid.some(curve => curve.ys.length) ? solid : curves)
      .flatMap(curve => curve.ys.filter((_, at) => curve.xs[at] >= x[0] && curve.xs[at] <= x[1]));
    let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    if (axes.logY) return { x, y: low < high ? [low / 1.05, high * 1.05] : [low / 1.5, high * 1.5] };
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
    const ticks = axes.logY ? logValues(...y) : roundValues(...y, 5);
    this.left = 12 + Math.max(...ticks.map(value => figure(value).length)) * 7.5;
    const bottom = this.height - MARGIN.bottom;
    const names = this.names(curves);
    const side = 16 + 7.2 * Math.max(0, ...names.map(({ text }) => text.length + 2));
    // Names at the ends of the lines, if they leave enough room for the lines.
    const isBeside = names.length && side < 0.38 * this.width;
    const right = this.right = this.width - (isBeside ? side : MARGIN.right);
    const scale = (log, [low, high], from, to) => {
      const f = log ? Math.log : value => value;
      return value => from + (to - from) * (f(value) - f(low)) / (f(high) - f(low));
    };
    this.xAt = scale(axes.logX, x, this.left, right);
    this.yAt = scale(axes.logY, y, bottom, MARGIN.top);
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
    const name = { step: this.data.x, sequences: 'sequences', tokens: 'tokens', hours: 'hours' }[axes.unit];
    picture.append(text(name, { x: (this.left + right) / 2, y: this.height - 5, 'text-anchor': 'middle' }));
    for (const [, value] of this.data.levels.filter(([, level]) => level >= y[0] && level <= y[1])) {
      picture.append(svg('line', { class: 'level', x1: this.left, x2: right, y1: this.yAt(value), y2: this.yAt(value) }));
    }
    this.addCurves(picture, curves, right, bottom);
    this.addMarker(picture, curves, bottom);
    if (isBeside) this.addNames(picture, names, right, bottom);
    this.plot.replaceChildren(picture, this.tip);
    this.legend.replaceChildren(...(isBeside ? [] : names).map(({ text: entry, color, line }) => colored(html('span', { class: line }, entry), color)));
  }

  // Returns the names of curves and levels, each with its value at the right end.
  names(curves) {
    const named = curves.filter(curve => curve.name && curve.xs.length)
      .map(curve => ({ text: curve.name, value: curve.ys[curve.ys.length - 1], color: curve.color, line: curve.line }));
    return [...named, ...this.data.levels.map(([name, value]) => ({
      text: `${name} ${figure(Number(value.toPrecision(4)))}`, value, color: 'var(--soft)', line: 'dashed',
    }))];
  }

  // Writes names next to the ends of their lines, moved apart; a name outside the axis is at its edge, with an arrow.
  addNames(picture, names, right, bottom) {
    const { y } = this.limitsNow;
    const placed = names.map(name => ({
      ...name, place: this.yAt(Math.min(y[1], Math.max(y[0], name.value))), arrow: name.value > y[1] ? ' ↑' : name.value < y[0] ? ' ↓' : '',
    })).sort((a, b) => a.place - b.place);
    placed.forEach((name, at) => { if (at) name.place = Math.max(name.place, placed[at - 1].place + ROW); });
    let limit = bottom;
    for (const name of [...placed].reverse()) {
      name.place = Math.min(name.place, limit);
      limit = name.place - ROW;
      picture.append(colored(svg('text', { class: 'name', x: right + 8, y: name.place, dy: 4 }, name.text + name.arrow), name.color));
    }
  }

  xTicks(x) {
    const count = Math.max(2, Math.floor(this.width / 110));
    const ticks = axes.logX ? logValues(...x) : roundValues(...x, count);
    const every = Math.ceil(ticks.length / (count + 1));
    return ticks.filter((_, at) => at % every === 0);
  }

  addCurves(picture, curves, right, bottom) {
    // A nested picture cuts off what is outside the axes.
    const inside = svg('svg', {
      x: this.left - 4, y: MARGIN.top - 4, width: right - this.left + 8, height: bottom - MARGIN.top + 8,
      viewBox: `${this.left - 4} ${MARGIN.top - 4} ${right - this.left + 8} ${bottom - MARGIN.top + 8}`,
    });
    for (const curve of curves) {
      const points = curve.xs.map((value, at) => `${this.xAt(value).toFixed(1)},${this.yAt(curve.ys[at]).toFixed(1)}`);
      const group = colored(svg('g', { class: curve.line }, svg('polyline', { points: points.join(' ') })), curve.color);
      if (curve.line === 'marked') {
        curve.xs.forEach((value, at) => group.append(svg('circle', { cx: this.xAt(value), cy: this.yAt(curve.ys[at]), r: 3 })));
      }
      inside.append(group);
    }
    picture.append(inside);
  }

  // Draws the vertical line under the pointer, and writes the values at it.
  addMarker(picture, curves, bottom) {
    if (this.drag) {
      const [from, to] = [this.drag.from, this.drag.to].sort((a, b) => a - b);
      picture.append(svg('rect', { class: 'drag', x: from, y: MARGIN.top, width: to - from, height: bottom - MARGIN.top }));
    }
    this.tip.hidden = this.at === null;
    if (this.at === null) return;
    const values = [];
    let x = null;
    for (const curve of curves.filter(one => one.xs.length && one.line !== 'pale')) {
      const at = nearest(curve.xs, this.at);
      x = x === null ? curve.xs[at] : x;
      const far = Math.abs(curve.xs[at] - x) > 0.02 * (this.whole[1] - this.whole[0]);
      const value = `${curve.name || this.data.y} ${figure(Number(curve.ys[at].toPrecision(4)))}${far ? ` (at ${figure(curve.xs[at])})` : ''}`;
      values.push(colored(html('span', {}, value), curve.color));
      picture.append(colored(svg('circle', { cx: this.xAt(curve.xs[at]), cy: this.yAt(curve.ys[at]), r: 4 }), curve.color));
    }
    if (x === null) [x] = [this.at];
    picture.append(svg('line', { class: 'cross', x1: this.xAt(x), x2: this.xAt(x), y1: MARGIN.top, y2: bottom }));
    const unit = axes.unit === 'step' ? this.data.x : axes.unit;
    this.tip.replaceChildren(html('b', {}, `${unit} ${figure(x)}`), ...values);
    // On the side of the pointer with more room.
    const isLeft = this.xAt(x) > this.width / 2;
    this.tip.style.left = isLeft ? 'auto' : `${this.xAt(x) + 12}px`;
    this.tip.style.right = isLeft ? `${this.width - this.xAt(x) + 12}px` : 'auto';
  }

  // Returns the x value at a pointer's position.
  valueAt(pixel) {
    const { x } = this.limitsNow;
    const share = Math.min(1, Math.max(0, (pixel - this.left) / (this.right - this.left)));
    return axes.logX ? x[0] * (x[1] / x[0]) ** share : x[0] + share * (x[1] - x[0]);
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
if (charts.length) (document.querySelector('.charts') || charts[0].root).before(controls());
