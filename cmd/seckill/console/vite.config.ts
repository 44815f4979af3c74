import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vite';
import type { Plugin } from 'vite';

const under = (folder: string) => readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((f) => f.isFile() && f.name !== 'SHA256SUMS').map((f) => join(f.parentPath, f.name));

// sums writes dist/SHA256SUMS over all that the build read and wrote, so that a test
// can say without Node whether dist was built from these sources.
const sums = (): Plugin => ({
  name: 'sums',
  closeBundle() {
    const files = ['index.html', 'package-lock.json', 'package.json', 'tsconfig.json', 'vite.config.ts', ...under('src'), ...under('dist')].sort();
    const line = (path: string) => `${createHash('sha256').update(readFileSync(path)).digest('hex')}  ${path}\n`;
    writeFileSync('dist/SHA256SUMS', files.map(line).join(''));
  },
});

export default defineConfig({
  base: '/console/',
  build: { target: 'es2022', modulePreload: { polyfill: false }, assetsInlineLimit: 0, reportCompressedSize: false, license: { fileName: 'licenses.md' } },
  plugins: [sums()],
});
