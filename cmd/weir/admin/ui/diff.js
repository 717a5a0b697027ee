// Differences between two texts, line by line, with colours.
import { html } from './lib.js';

const mostLines = 3000; // longer texts are not compared here, but on the server
const context = 3;

// lines compares two texts as `diff -u` does: the longest common run of lines stays.
export function lines(from, to) {
  const a = from.split('\n');
  const b = to.split('\n');
  if (from === to) return '';
  if (a.length > mostLines || b.length > mostLines) return '@@ too long to be compared here @@';
  return hunks(edits(a, b));
}

// edits are the lines with ' ', '-' or '+' before them.
function edits(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const x = a.slice(start, a.length - end);
  const y = b.slice(start, b.length - end);
  const width = y.length + 1;
  const common = new Uint16Array((x.length + 1) * width); // of what is left of both
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = x[i] === y[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const out = a.slice(0, start).map((l) => ` ${l}`);
  let i = 0;
  let j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) { out.push(` ${x[i]}`); i += 1; j += 1; }
    else if (i < x.length && (j === y.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) { out.push(`-${x[i]}`); i += 1; }
    else { out.push(`+${y[j]}`); j += 1; }
  }
  return out.concat(end ? a.slice(-end).map((l) => ` ${l}`) : []);
}

// hunks leaves out what is far from every change.
function hunks(all) {
  const keep = new Uint8Array(all.length);
  all.forEach((l, i) => {
    if (l[0] !== ' ') keep.fill(1, Math.max(0, i - context), i + context + 1);
  });
  const out = [];
  all.forEach((l, i) => {
    if (keep[i]) out.push(l);
    else if (i === 0 || keep[i - 1]) out.push('@@');
  });
  return out.join('\n');
}

const kinds = { '+': 'added', '-': 'removed', '@': 'place' };

// Diff shows a unified diff. Each line is text.
export function Diff({ text, empty }) {
  if (!text) return html`<p class="note">${empty}</p>`;
  return html`<pre class="diff code" tabindex="0">${text.split('\n').map((l, i) => html`<span key=${i} class=${/^(---|\+\+\+) /.test(l) ? 'file' : kinds[l[0]] ?? ''}>${l || ' '}${'\n'}</span>`)}</pre>`;
}
