// The list of views in the bar. Where it does not fit it scrolls, and its edges say so.
import { html, page } from './lib.js';
import { live, Watching } from './live.js';

const views = [
  ['', 'Overview'], ['origins', 'Origins'], ['groups', 'Groups'], ['clients', 'Clients'], ['resources', 'Resources'],
  ['nacks', 'NACKs'], ['history', 'History'], ['charts', 'Charts'], ['config', 'Config'], ...(page.replicas ? [['replicas', 'Replicas']] : []),
];

// Nav marks the view that is shown, and those with trouble.
export class Nav extends Watching {
  componentDidMount() {
    super.componentDidMount();
    this.box = document.getElementById('nav');
    this.edges = () => this.cue();
    this.box.addEventListener('scroll', this.edges, { passive: true });
    addEventListener('resize', this.edges);
    this.show();
  }
  componentDidUpdate(before) {
    if (before.view !== this.props.view) this.show();
    else this.cue();
  }
  // show scrolls the list, and not the page, to the view that is shown.
  show() {
    const { box } = this;
    const at = box.querySelector('[aria-current]');
    if (at) box.scrollLeft = at.offsetLeft - (box.clientWidth - at.offsetWidth) / 2;
    this.cue();
  }
  // cue says on which sides there is more. The style sheet has a sign for it.
  cue() {
    const { scrollLeft, scrollWidth, clientWidth } = this.box;
    this.box.dataset.before = scrollLeft > 4;
    this.box.dataset.after = scrollLeft + clientWidth < scrollWidth - 4;
  }
  render({ view }) {
    const at = { rollback: 'origins', resource: 'resources' }[view] ?? view;
    return views.map(([path, text]) => html`<a key=${path} href=${`#/${path}`} aria-current=${at === path ? 'page' : undefined}>
      ${text}${path === 'nacks' && live.overview?.nacking > 0 && html`<i class="count">${live.overview.nacking}</i>`}</a>`);
  }
}
