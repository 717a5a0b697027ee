// The stream of events: the overview, as it changes. Views subscribe to it.
import { html, Component, hour, setClock, setTitle } from './lib.js';

const silence = 12000; // the server beats every five seconds
const hiddenFor = 60000; // a hidden page closes its stream after this

export const live = { overview: null, open: false, since: new Date().toISOString(), paused: false };
const watchers = new Set();
let source = null;
let last = 0;
let wait = 500;
let retry = 0;
let hidden = 0;

export function watch(f) {
  watchers.add(f);
  return () => watchers.delete(f);
}

// mark says in the tab how everything stands: the title and the icon stay visible when the page is
// not.
function mark() {
  const state = live.open ? live.overview?.state : 'bad';
  if (!state) return;
  const words = live.open ? { good: 'OK', warn: 'Warning', bad: 'Problem' }[state] : 'Not live';
  const name = document.documentElement.dataset.name;
  setTitle(name === 'weir' ? [words, name] : [words, name, 'weir']);
  const icon = document.querySelector('link[rel="icon"]');
  icon.href = icon.href.replace(/icon[^/]*\.svg$/, state === 'good' ? 'icon.svg' : `icon-${state}.svg`);
}

function notify() {
  mark();
  const root = document.documentElement;
  root.dataset.live = live.open ? 'open' : 'closed';
  root.toggleAttribute('data-lost', !live.open && Boolean(live.overview));
  watchers.forEach((f) => f());
}

function heard(event) {
  last = Date.now();
  wait = 500;
  const was = live.open;
  live.open = true;
  if (event.type === 'overview') {
    live.overview = JSON.parse(event.data);
    setClock(live.overview.at);
  }
  if (!was || event.type === 'overview') notify();
}

function lost() {
  source?.close();
  source = null;
  if (live.open) {
    live.open = false;
    live.since = new Date(last).toISOString();
  }
  notify();
  clearTimeout(retry);
  if (live.paused) return;
  // Half of it by chance, so that the pages of a team do not come back together.
  retry = setTimeout(open, wait / 2 + (Math.random() * wait) / 2);
  wait = Math.min(wait * 2, 15000);
}

function open() {
  clearTimeout(retry);
  source?.close();
  last = Date.now();
  source = new EventSource('/events');
  source.addEventListener('overview', heard);
  source.addEventListener('beat', heard);
  source.onerror = lost;
}

export function start() {
  open();
  setInterval(() => {
    if (source && Date.now() - last > silence) lost();
  }, 1000);
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hidden);
    if (document.hidden) {
      hidden = setTimeout(() => { live.paused = true; lost(); }, hiddenFor);
    } else if (live.paused || !source) {
      live.paused = false;
      wait = 500;
      open();
    }
  });
}

// Watching is a component that renders again with each event.
export class Watching extends Component {
  componentDidMount() { this.stop = watch(() => this.forceUpdate()); }
  componentWillUnmount() { this.stop(); }
}

// LiveMark says whether what is shown is live.
export class LiveMark extends Watching {
  render() {
    return live.open
      ? html`<span class="live is-good" role="status"><i class="dot"></i>Live</span>`
      : html`<span class="live is-bad" role="status"><i class="dot"></i>${live.overview
        ? `Not live since ${hour(live.since)}` : 'Connecting'}</span>`;
  }
}
