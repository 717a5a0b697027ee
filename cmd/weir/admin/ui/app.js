// The page: routes, the bar at the top, and keys.
import { html, Component, render } from './lib.js';
import { start, LiveMark } from './live.js';
import { Nav } from './nav.js';
import { Search } from './search.js';
import { Keys, listen } from './keys.js';
import { Overview } from './overview.js';
import { Origin, Group } from './origin.js';
import { Origins, Groups } from './lists.js';
import { Clients, Client } from './clients.js';
import { Resources, Resource } from './resources.js';
import { Nacks } from './nacks.js';
import { History } from './history.js';
import { Charts } from './charts.js';
import { Config } from './config.js';
import { Replicas } from './replicas.js';
import { Rollback } from './rollback.js';

// decode is a part of a path; one that is not well encoded stays as it is.
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// route is the hash in parts: the path, and the parameters after the question mark.
export function route(hash = location.hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [view, ...rest] = path.split('/').map(decode);
  return { view, rest, params: Object.fromEntries(new URLSearchParams(search)) };
}

function viewOf({ view, rest, params }) {
  switch (view) {
    case '': return html`<${Overview} />`;
    case 'origins': return rest[0] ? html`<${Origin} key=${rest[0]} name=${rest[0]} />` : html`<${Origins} />`;
    case 'groups': return !rest[0] ? html`<${Groups} filter=${params} />` : html`<${Group} key=${rest.join('/')} origin=${rest[0]} group=${rest.slice(1).join('/')} />`;
    case 'clients': return rest[0]
      ? html`<${Client} key=${rest.join('/')} node=${rest.join('/')} />`
      : html`<${Clients} filter=${params} />`;
    case 'resources': return html`<${Resources} filter=${params} />`;
    case 'resource': return html`<${Resource} key=${JSON.stringify(params)} of=${params} />`;
    case 'nacks': return html`<${Nacks} filter=${params} />`;
    case 'history': return html`<${History} filter=${params} />`;
    case 'charts': return html`<${Charts} since=${params.since || '1h'} />`;
    case 'rollback': return html`<${Rollback} filter=${params} />`;
    case 'replicas': return html`<${Replicas} />`;
    case 'config': return html`<${Config} all=${Boolean(params.all)} />`;
    default: return html`<main id="view" data-view="none" tabindex="-1"><h2>There is no such view</h2><p class="note"><a href="#/">Overview</a></p></main>`;
  }
}

// Places has how far each view was scrolled, and the row that had the focus, for the way back.
const places = new Map();

function leave(hash) {
  const row = document.activeElement?.closest?.('#view [data-href]');
  places.set(hash, { y: scrollY, href: row?.dataset.href });
}

// arrive puts a view back to where it was left. Its rows may take a moment to come.
function arrive(hash) {
  const { y = 0, href } = places.get(hash) ?? {};
  const until = performance.now() + 1500;
  const step = () => {
    if (location.hash !== hash) return;
    scrollTo(0, y);
    const row = href && [...document.querySelectorAll('#view [data-href]')].find((r) => r.dataset.href === href);
    row?.focus({ preventScroll: true });
    if ((Math.abs(scrollY - y) > 2 || (href && !row)) && performance.now() < until) requestAnimationFrame(step);
  };
  document.getElementById('view')?.focus({ preventScroll: true });
  step();
}

class App extends Component {
  constructor(props) {
    super(props);
    this.state = { at: location.hash };
  }
  componentDidMount() {
    if ('scrollRestoration' in history) history.scrollRestoration = 'manual';
    addEventListener('hashchange', () => this.go());
    this.nav();
  }
  go() {
    const before = route(this.state.at);
    leave(this.state.at);
    this.setState({ at: location.hash }, () => {
      const after = route();
      this.nav();
      if (before.view === after.view && before.rest.join('/') === after.rest.join('/')) return; // another filter of it
      arrive(location.hash);
    });
  }
  nav() {
    render(html`<${Nav} view=${route().view} />`, document.getElementById('nav'));
  }
  render() {
    return html`${viewOf(route(this.state.at))}<${Keys} />`;
  }
}

render(html`<${LiveMark} />`, document.getElementById('live'));
render(html`<${Search} />`, document.getElementById('finder'));
render(html`<${App} />`, document.getElementById('app'));
listen();
start();
