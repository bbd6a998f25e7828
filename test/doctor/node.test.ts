import { test } from 'tap';
import { checkNode } from '../../src/doctor/node.ts';

test('a release of Node is supported until the end of its last day', (t) => {
  const at = (time: string) => Date.parse(time);
  t.match(checkNode('24.1.0', at('2026-11-24')), {
    state: 'ok',
    found: 'Node 24.1.0 gets fixes until 2028-04-30',
  });
  t.match(checkNode('20.19.0', at('2026-04-30T23:00:00Z')), { state: 'ok' });
  t.match(checkNode('20.19.0', at('2026-05-01')), {
    state: 'warn',
    found: 'Node 20.19.0 has had no security fixes since 2026-04-30',
  });
  t.match(checkNode('99.0.0', at('2026-11-24')), { state: 'ok' }, 'newer than this release of Latchkey');
  t.end();
});
