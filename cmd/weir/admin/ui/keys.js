// The keyboard: / searches, j and k or the arrows move in lists, Enter opens, Escape goes back,
// ? shows the keys, g and a letter goes to a view.
import { html, Component } from './lib.js';

const keys = [
  ['/', 'Search'], ['j k', 'Down and up in a list; the arrows do, too'], ['Enter', 'Open'], ['Esc', 'Back'],
  ['g o', 'Overview'], ['g u', 'Origins (upstream)'], ['g g', 'Groups'], ['g c', 'Clients'], ['g r', 'Resources'], ['g n', 'NACKs'], ['g h', 'History'],
  ['g l', 'Charts'], ['g f', 'Config'], ['?', 'These keys'],
];
const places = { o: '', u: 'origins', g: 'groups', c: 'clients', r: 'resources', n: 'nacks', h: 'history', l: 'charts', f: 'config' };

let dialog = null;
let going = false;

export class Keys extends Component {
  shouldComponentUpdate() { return false; }
  render() {
    return html`<dialog id="keys" aria-label="Keys" ref=${(d) => { dialog = d; }}>
      <h2>Keys</h2>
      <dl class="keys">${keys.map(([key, what]) => html`<div key=${key}><dt>${key.split(' ').map((k) => html`<kbd key=${k}>${k}</kbd>`)}</dt><dd>${what}</dd></div>`)}</dl>
      <form method="dialog"><button>Close</button></form>
    </dialog>`;
  }
}

const rows = () => [...document.querySelectorAll('#view [data-href]')].filter((r) => r.offsetParent !== null);

function move(by) {
  const all = rows();
  if (!all.length) return false;
  const at = all.indexOf(document.activeElement?.closest?.('[data-href]'));
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
  return true;
}

function back() {
  const up = document.querySelector('#view .back');
  if (up) location.hash = up.getAttribute('href');
  else if (location.hash.length > 2) location.hash = '#/';
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog?.open) return;
  const inField = event.target.closest?.('input, select, textarea');
  if (inField) return;
  if (going) {
    going = false;
    if (event.key in places) location.hash = `#/${places[event.key]}`;
    return;
  }
  switch (event.key) {
    case '/': document.getElementById('search')?.focus(); break;
    case '?': dialog?.showModal(); break;
    case 'g': going = true; setTimeout(() => { going = false; }, 1000); break;
    case 'j': case 'ArrowDown': if (!move(1)) return; break;
    case 'k': case 'ArrowUp': if (!move(-1)) return; break;
    case 'Escape': back(); break;
    case 'Enter': {
      const row = event.target.closest?.('[data-href]');
      if (!row || event.target !== row) return;
      location.hash = row.dataset.href;
      break;
    }
    default: return;
  }
  event.preventDefault();
}

// A click on a row opens it as well, unless it is on a link or selects text.
function clicked(event) {
  const row = event.target.closest?.('[data-href]');
  if (!row || event.target.closest('a, button, input, select, summary, form') || String(getSelection())) return;
  location.hash = row.dataset.href;
}

export function listen() {
  addEventListener('keydown', pressed);
  addEventListener('click', clicked);
}
