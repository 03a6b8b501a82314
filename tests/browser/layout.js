// Returns the faults of a page's layout as texts.
const faults = [];
const width = document.documentElement.clientWidth;
const name = element => `${element.tagName.toLowerCase()}.${element.className}: ${element.textContent.trim().slice(0, 40)}`;
const isShown = element => element.checkVisibility() && element.getClientRects().length > 0;
const all = [...document.body.querySelectorAll('*')].filter(isShown);

// No element is wider than the window, except in a frame that scrolls.
const scrolls = element => ['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(element).overflowX);
const isFramed = element => { for (let at = element.parentElement; at; at = at.parentElement) if (scrolls(at)) return true; return false; };
for (const element of all) {
  const box = element.getBoundingClientRect();
  if (!isFramed(element) && (box.right > width + 1 || box.left < -1)) faults.push(`wider than the window: ${name(element)}`);
}

// No word of a cell or key figure is in two lines. A heading, a key figure and a long text may break after a hyphen.
const texts = root => {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) if (walker.currentNode.data.trim() && isShown(walker.currentNode.parentElement)) nodes.push(walker.currentNode);
  return nodes;
};
for (const cell of document.querySelectorAll('td, th, .tile')) {
  const word = cell.matches('th, .tile, .long') ? /[^\s-]+-*|-+/g : /\S+/g;
  for (const node of texts(cell)) {
    for (const match of node.data.matchAll(word)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (tops.size > 1) faults.push(`a broken word: ${match[0]}`);
    }
  }
}

// All text has a contrast of at least 4.5 to its background.
const drawing = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
const channels = (colors) => {
  drawing.clearRect(0, 0, 1, 1);
  for (const color of colors) { drawing.fillStyle = color; drawing.fillRect(0, 0, 1, 1); }
  return [...drawing.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const luminance = rgb => rgb.map(value => value / 255).map(value => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
const backgrounds = element => {
  const found = [];
  for (let at = element; at; at = at.parentElement) found.unshift(getComputedStyle(at).backgroundColor);
  return [getComputedStyle(document.body).backgroundColor, ...found];
};
const seen = new Set();
for (const node of texts(document.body)) {
  const element = node.parentElement;
  if (['SCRIPT', 'STYLE', 'OPTION'].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const color = element instanceof SVGElement ? style.fill : style.color;
  const below = backgrounds(element);
  const key = color + below.join();
  if (seen.has(key)) continue;
  seen.add(key);
  const [text, paper] = [luminance(channels([...below, color])), luminance(channels(below))];
  const contrast = (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05);
  if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(2)}: ${name(element)}`);
}

// No two series of a chart have one colour.
for (const plot of document.querySelectorAll('.plot')) {
  const lines = [...plot.querySelectorAll('g:not(.pale) polyline')].map(line => getComputedStyle(line).stroke);
  if (new Set(lines).size < lines.length) faults.push(`two series of one colour: ${lines.join(', ')}`);
}

// The first screen has the verdict.
const verdict = document.querySelector('.verdict');
if (!verdict) faults.push('no verdict');
else if (verdict.getBoundingClientRect().bottom > 900) faults.push('the verdict is below the first screen');
return faults;
