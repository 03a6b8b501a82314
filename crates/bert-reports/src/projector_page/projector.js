'use strict';(() => {
// Shows points along two principal components: pan, zoom, search, and the nearest vectors of a point.

const { points, explained, groups, chosen } = JSON.parse(document.getElementById('data').textContent);
const media = matchMedia('(prefers-color-scheme: dark)');
const theme = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const names = [...new Set(groups || [])];
const groupColor = at => `--s${names.indexOf(groups[at]) % 10}`;
const state = { axes: [0, 1], scale: 1, center: [0, 0], chosen: null, found: new Set(), pointers: new Map() };
const canvas = make('canvas', { tabindex: 0, role: 'img', 'aria-label': 'points along two principal components; + and - zoom, arrow keys move' });
const list = make('div', { class: 'list', 'aria-live': 'polite' });
const percent = share => `${(100 * share).toFixed(1)} %`;
const axis = at => {
  const select = make('select', { 'aria-label': `${'xy'[at]} axis`, onchange: event => { state.axes[at] = Number(event.target.value); fit(); } },
    ...explained.map((share, component) => make('option', { value: component }, `component ${component + 1} (${percent(share)})`)));
  select.value = state.axes[at];
  return make('label', {}, `${'xy'[at]} `, select);
};
const search = make('input', {
  type: 'search', placeholder: 'search', 'aria-label': 'search', oninput: event => {
    const text = event.target.value.toLowerCase();
    state.found = new Set(text ? points.flatMap(([label], at) => (label.toLowerCase().includes(text) ? [at] : [])) : []);
    const exact = points.findIndex(([label]) => label.toLowerCase() === text);
    if (exact >= 0) choose(exact);
    else if (text) showFound();
    draw();
  },
});
const zoomButton = (text, name, factor) => make('button', { type: 'button', 'aria-label': name, onclick: () => { zoom(factor); } }, text);
const controls = make('div', { class: 'controls' }, axis(0), axis(1), search, zoomButton('+', 'zoom in', 1.5), zoomButton('−', 'zoom out', 1 / 1.5),
  make('button', { type: 'button', onclick: () => fit() }, 'all'));
document.getElementById('app').replaceChildren(controls, legend(), make('div', { class: 'view' }, canvas, list));

// Returns the labels in their colours.
function legend() {
  return make('p', { class: 'legend' }, ...names.map((name, at) => make('span', { style: `--color:var(--s${at % 10})` }, name)));
}

function size() {
  const width = canvas.clientWidth;
  return [width, Math.max(320, Math.min(720, Math.round(width * 0.62)))];
}

// Fits all points into the picture.
function fit() {
  const [width, height] = size();
  const ranges = state.axes.map(component => {
    const values = points.map(([, coordinates]) => coordinates[component]);
    return [Math.min(...values), Math.max(...values)];
  });
  state.center = ranges.map(([low, high]) => (low + high) / 2);
  const [x, y] = ranges.map(([low, high]) => Math.max(1e-9, high - low));
  state.scale = 0.9 * Math.min(width / x, height / y);
  draw();
}

function place(at) {
  const [width, height] = size();
  const [x, y] = state.axes.map((component, side) => (points[at][1][component] - state.center[side]) * state.scale);
  return [width / 2 + x, height / 2 - y];
}

function zoom(factor, pixel) {
  const [width, height] = size();
  const [x, y] = pixel || [width / 2, height / 2];
  const before = [(x - width / 2) / state.scale, (height / 2 - y) / state.scale];
  state.scale *= factor;
  const after = [(x - width / 2) / state.scale, (height / 2 - y) / state.scale];
  state.center = state.center.map((value, side) => value + before[side] - after[side]);
  draw();
}

function draw() {
  const [width, height] = size();
  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext('2d');
  drawing.scale(ratio, ratio);
  drawing.font = '12px system-ui, sans-serif';
  const near = new Set(state.chosen === null ? [] : points[state.chosen][2].map(([at]) => at));
  const taken = [];
  const order = points.map((_, at) => at).sort((a, b) => rank(b) - rank(a));
  function rank(at) {
    if (at === state.chosen) return 3;
    return near.has(at) ? 2 : Number(state.found.has(at));
  }
  for (const at of [...order].reverse()) {
    const [x, y] = place(at);
    if (x < 0 || y < 0 || x > width || y > height) continue;
    drawing.fillStyle = theme(groups && !rank(at) ? groupColor(at) : ['--soft', '--good', '--a', '--b'][rank(at)]);
    drawing.beginPath();
    drawing.arc(x, y, rank(at) ? 4.5 : 2.5, 0, 7);
    drawing.fill();
  }
  // Labels where there is room, the important ones first.
  for (const at of order) {
    const [x, y] = place(at);
    if (x < 0 || y < 0 || x > width || y > height) continue;
    const label = [...points[at][0]].slice(0, 32).join('');
    const wide = drawing.measureText(label).width;
    // Inside the frame: on the left of a point near the right edge.
    const left = x + 8 + wide > width ? x - 8 - wide : x + 6;
    const box = [left, y - 7, left + 2 + wide, y + 7];
    if (left < 0 || y < 8 || y > height - 8 || taken.length > 400 || taken.some(other => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
    taken.push(box);
    drawing.fillStyle = theme(rank(at) ? '--ink' : '--soft');
    drawing.fillText(label, left, y + 4);
  }
}

// Lists the points that a search has found.
function showFound() {
  const found = [...state.found].slice(0, 20);
  list.replaceChildren(make('h2', {}, `${state.found.size} found`),
    ...found.map(at => make('div', {}, make('button', { type: 'button', onclick: () => choose(at) }, points[at][0]))));
}

// Lists the nearest vectors of a point.
function choose(at) {
  state.chosen = at;
  const rows = points[at][2].map(([other, cosine]) => make('tr', {},
    make('td', {}, make('button', { type: 'button', onclick: () => choose(other) }, points[other][0])), make('td', { class: 'n' }, cosine.toFixed(3))));
  list.replaceChildren(make('h2', {}, points[at][0]), make('table', {}, make('tr', {}, make('th', {}, 'nearest'), make('th', { class: 'n' }, 'cosine')), ...rows));
  draw();
}

function nearestPoint(x, y) {
  let best = null;
  points.forEach((_, at) => {
    const [px, py] = place(at);
    const distance = Math.hypot(px - x, py - y);
    if (distance < 24 && (!best || distance < best.distance)) best = { at, distance };
  });
  return best && best.at;
}

const pixel = event => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
let moved = 0;
canvas.addEventListener('pointerdown', event => {
  canvas.setPointerCapture(event.pointerId);
  state.pointers.set(event.pointerId, pixel(event));
  moved = 0;
});
canvas.addEventListener('pointermove', event => {
  const last = state.pointers.get(event.pointerId);
  if (!last) return;
  const now = pixel(event);
  const others = [...state.pointers].filter(([id]) => id !== event.pointerId);
  if (others.length) {
    const [, other] = others[0];
    zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(1, Math.hypot(last[0] - other[0], last[1] - other[1])), other);
  } else {
    state.center = [state.center[0] - (now[0] - last[0]) / state.scale, state.center[1] + (now[1] - last[1]) / state.scale];
  }
  moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
  state.pointers.set(event.pointerId, now);
  draw();
});
for (const name of ['pointerup', 'pointercancel']) {
  canvas.addEventListener(name, event => {
    state.pointers.delete(event.pointerId);
    const at = nearestPoint(...pixel(event));
    if (name === 'pointerup' && moved < 6 && at !== null) choose(at);
  });
}
canvas.addEventListener('wheel', event => {
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, pixel(event));
}, { passive: false });
canvas.addEventListener('keydown', event => {
  const moves = { ArrowLeft: [-40, 0], ArrowRight: [40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
  if (event.key === '+') zoom(1.5);
  else if (event.key === '-') zoom(1 / 1.5);
  else if (event.key === '0') fit();
  else if (moves[event.key]) {
    state.center = state.center.map((value, side) => value + moves[event.key][side] / state.scale);
    draw();
  } else return;
  event.preventDefault();
});
media.addEventListener('change', draw);
addEventListener('resize', draw);
fit();
choose(chosen);
})();
