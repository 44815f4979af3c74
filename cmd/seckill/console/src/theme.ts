// Light or dark: the system's choice until one is made here.
import { computed, effect, signal } from '@preact/signals';

const system = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(system.matches);
system.addEventListener('change', () => { systemDark.value = system.matches; });

const chosen = signal(localStorage.getItem('seckill.theme') ?? '');
export const scheme = computed(() => chosen.value || (systemDark.value ? 'dark' : 'light'));
effect(() => { document.documentElement.dataset.theme = scheme.value; });

export function turn() {
  chosen.value = scheme.value === 'dark' ? 'light' : 'dark';
  localStorage.setItem('seckill.theme', chosen.value);
}
