// The address says what is seen: #/SCREEN/ID?filters. Whoever is sent it sees the same.
import { computed, signal } from '@preact/signals';

const hash = signal(location.hash);
addEventListener('hashchange', () => { hash.value = location.hash; });

export const screens = [
  ['live', 'Live sale'], ['orders', 'Orders'], ['dead', 'Dead letters'], ['pipeline', 'Pipeline'], ['audit', 'Audit'],
] as const;
export type Screen = (typeof screens)[number][0];

export const route = computed(() => {
  const [path, query = ''] = hash.value.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const screen = screens.find(([s]) => s === name)?.[0] ?? 'live';
  return { screen, id: decodeURIComponent(rest.join('/')), query: new URLSearchParams(query) };
});

export const param = (name: string) => route.value.query.get(name) ?? '';

// link is the address of a screen; empty filters are left out.
export function link(screen: Screen, id = '', query: Record<string, string | undefined> = {}) {
  const filters = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v) filters.set(k, v);
  return `#/${screen}${id ? '/' + encodeURIComponent(id) : ''}${filters.size ? '?' + filters : ''}`;
}

export function go(to: string, replace = false) {
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  hash.value = location.hash;
}

// refine changes filters of the present screen and keeps the others.
export function refine(change: Record<string, string | undefined>, id = route.value.id) {
  go(link(route.value.screen, id, { ...Object.fromEntries(route.value.query), ...change }), true);
}
