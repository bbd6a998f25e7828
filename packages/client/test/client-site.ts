import { readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import type { Test } from 'tap';
import { ROOT } from '../../../test/support/documents.ts';
import { listen } from '../../../test/support/listen.ts';

/** The folders that a page loads modules from. */
const FOLDERS: Readonly<Record<string, string>> = {
  client: 'packages/client/dist',
  test: 'dist/packages/client/test',
};

/**
 * An origin with an empty page that can import the client.
 * @param others what answers below these paths
 * @returns its URL
 */
export function clientSite(t: Test, others: Record<string, http.RequestListener> = {}): Promise<string> {
  const server = http.createServer((request, response) => {
    const { url = '' } = request;
    const [, other] = Object.entries(others).find(([path]) => url.startsWith(path)) ?? [];
    if (other) {
      other(request, response);
      return;
    }
    const [, folder = '', name] = /^\/(\w+)\/([\w-]+\.js)$/.exec(url) ?? [];
    response.setHeader('content-type', name ? 'text/javascript' : 'text/html');
    const path = FOLDERS[folder];
    response.end(
      path && name ? readFileSync(join(ROOT, path, name)) : '<!doctype html><link rel=icon href=data:,>',
    );
  });
  return listen(t, server);
}
