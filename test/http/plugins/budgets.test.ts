import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';

test('a later route cannot forget its budget', async (t) => {
  const { app } = await buildTestApp(t);
  app.get('/guarded', { onRequest: app.auth.principal }, () => 'x');
  app.get('/named', { config: { budget: { none: 'a test' } } }, () => 'x');
  app.get('/forgotten', () => 'x');
  await t.rejects(async () => app.ready(), { message: /^GET \/forgotten has neither/ });
});
