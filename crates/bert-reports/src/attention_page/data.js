// Reads the models of the page, and returns weights between tokens or words.

const media = matchMedia('(prefers-color-scheme: dark)');
const short = weight => weight.toFixed(3);
const range = count => Array.from({ length: count }, (_, index) => index);

// Creates an element with attributes, properties that begin with "on", and children.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

// Decodes Base64 and gzip.
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Returns a colour of the style sheet, such as "--ink".
const themeColor = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Returns the colour of a head, readable on the page's background.
function headColor(head, heads) {
  return `oklch(${media.matches ? '76% 0.13' : '52% 0.15'} ${Math.round(360 * head / heads)})`;
}

// Returns the drawing context of a canvas of this size in CSS pixels, cleared.
function context(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 16000 / Math.max(width, height), Math.sqrt(1.6e7 / (width * height)));
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext('2d');
  drawing.scale(ratio, ratio);
  return drawing;
}

// A unit is a token or a word: its label, its pieces and its segment.
class Model {
  constructor(data, codes, components) {
    Object.assign(this, data);
    this.codes = codes;
    this.components = new Int8Array(components.buffer);
    this.count = data.tokens.length;
    this.pieces = data.tokens.map((label, at) => ({ label, pieces: [at], segment: data.segments[at] }));
    this.wordUnits = [];
    data.words.forEach((word, at) => {
      const unit = this.wordUnits[word];
      if (!unit) this.wordUnits[word] = { ...this.pieces[at], pieces: [at] };
      else {
        unit.label += data.tokens[at].replace(/^##/, '');
        unit.pieces.push(at);
      }
    });
    this.hasWords = this.wordUnits.length < this.count;
    this.isPair = data.segments.includes(1);
  }

  // Returns the units of the queries and of the keys that the filter admits.
  shown(state) {
    const units = state.words ? this.wordUnits : this.pieces;
    const [from, to] = state.filter === 'all' ? [null, null] : [...state.filter].map(name => 'AB'.indexOf(name));
    const of = segment => units.map((unit, at) => ({ ...unit, at })).filter(unit => segment === null || unit.segment === segment);
    return { queries: of(from), keys: of(to) };
  }

  // Returns the weights of a head, query by query. Layer and head are indices.
  matrix(layer, head, { queries, keys }) {
    const n = this.count;
    const start = (layer * this.heads.length + head) * n * n;
    const rows = [];
    queries.forEach((query, row) => query.pieces.forEach(token => rows.push({ row, token, share: 1 / (255 * query.pieces.length) })));
    const out = new Float32Array(queries.length * keys.length);
    const width = keys.length;
    const { codes } = this;
    const [row, token, share] = ['row', 'token', 'share'].map(name => Float64Array.from(rows, entry => entry[name]));
    for (let column = 0; column < width; column += 1) {
      for (const key of keys[column].pieces) {
        const at = start + key * n;
        for (let i = 0; i < row.length; i += 1) out[row[i] * width + column] += codes[at + token[i]] * share[i];
      }
    }
    return out;
  }

  // Returns the query or the key of a token; `kind` is 0 or 1, layer an index of the layers with vectors.
  vector(layer, head, kind, token) {
    const { dimensions, scales } = this.vectors;
    const block = (layer * this.heads.length + head) * 2 + kind;
    const start = (block * this.count + token) * dimensions;
    return Array.from(this.components.subarray(start, start + dimensions), code => code * scales[block]);
  }
}

async function readModels() {
  const { models } = JSON.parse(document.getElementById('data').textContent);
  return Promise.all(models.map(async data => new Model(data, await unpack(data.weights), await unpack(data.vectors.data))));
}
