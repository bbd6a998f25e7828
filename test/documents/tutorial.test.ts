// suite: browser
import { test } from 'tap';
import { chromiumMissing, openProfile } from '../support/browser.ts';
import { aNewcomer } from '../support/newcomer.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const PAGE = 'docs/tutorial.md';
const ORDERS = /200 {2}the orders of user \d+, by a token from (.*)/;

const skip = chromiumMissing || toolsMissing('bash', 'curl', 'git', 'npm', 'tar');

/** Pastes each block and does in Chromium what the text between them says. */
test('docs/tutorial.md leads to a page that survives a stop of Latchkey', { skip }, async (t) => {
  const newcomer = await aNewcomer(t);
  for (const section of ['Start Latchkey', 'Protect a service', 'Make a page'])
    await newcomer.follow(PAGE, section);
  const account = await newcomer.follow(PAGE, 'Log in, and watch a refresh');
  t.match([...account.values()].join(''), '"access_token":');

  const page = await (await openProfile(t)).newPage();
  page.setDefaultTimeout(0);
  const logIn = () => page.getByRole('button', { name: 'Log in' }).click();
  /** The lines of the page, the newest first. */
  const lines = async () => (await page.locator('pre').innerText()).split('\n');
  const newest = async () => (await lines())[0] ?? '';
  const tokenOf = (line: string) => ORDERS.exec(line)?.[1];

  await page.goto(`http://localhost:${newcomer.portOf('4000')}`);
  await logIn();
  await until(async () => ORDERS.test(await newest()));
  const first = tokenOf(await newest());
  await until(async () => ![undefined, first].includes(tokenOf(await newest())));
  t.notMatch((await lines()).join('\n'), /no orders|401/, 'the refresh disturbed no request');

  await newcomer.follow(PAGE, 'End the session from elsewhere');
  await until(async () => (await lines()).slice(0, 2).some((line) => line.endsWith('signed out')));
  t.match(newcomer.log(), /^refused: revoked/m, 'the service refused it by itself');

  await logIn();
  await until(async () => ORDERS.test(await newest()));
  const last = tokenOf(await newest());
  await newcomer.interrupt('Start Latchkey');
  const since = (await lines()).length;
  await until(async () => (await lines()).length > since);
  t.equal(tokenOf(await newest()), last, 'the service answers without Latchkey');
  await until(async () => (await newest()).endsWith('no orders: no_answer'));
  await newcomer.follow(PAGE, 'Stop Latchkey');
  await until(async () => ORDERS.test(await newest()));
  t.not(tokenOf(await newest()), last);
  t.equal((await lines()).filter((line) => line.includes('signed in as')).length, 2, 'nobody had to log in');
});
