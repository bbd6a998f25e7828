import { createServer } from 'node:http';
import { test } from 'tap';
import { onAHost, startDeployedCaddy } from '../support/deployed-caddy.ts';
import { listen } from '../support/listen.ts';
import { ALL_PATHS, PUBLIC_PATHS } from '../support/public-paths.ts';
import { toolsMissing } from '../support/tools.ts';

test(
  'Caddy as docs/installing.md sets it up opens the public paths only',
  { skip: toolsMissing('bash', 'caddy') },
  async (t) => {
    const service = createServer((_request, response) => response.end('service'));
    const url = await listen(t, service);
    const caddy = await startDeployedCaddy(t, { 'latchkey:3000': url }, new URL(url).port, onAHost);
    const opened: string[] = [];
    for (const path of [...ALL_PATHS, '/orders', '/public/orders']) {
      const response = await fetch(caddy.url + path);
      if ((await response.text()) === 'service') opened.push(path);
      else t.equal(response.status, 404, path);
    }
    t.strictSame(opened, PUBLIC_PATHS);
  },
);
