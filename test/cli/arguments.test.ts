import { test } from 'tap';
import { RIGHTS } from '../../src/domain/rights.ts';
import { parseArguments, shortUsage, USAGE, UsageError, usageOf } from '../../src/cli/arguments.ts';

test('an option of another command is refused by name', (t) => {
  for (const [line, message] of [
    ['doctor --growth 3', '--growth is an option of plan, not of doctor'],
    ['--growth 3 doctor', '--growth is an option of plan, not of doctor'],
    ['purge --yes', '--yes is an option of recover, user delete, user factors, not of purge'],
    ['keys list --alg ES256', '--alg is an option of keys add, not of keys list'],
    ['user list --id 7', /^--id is an option of .*user show.*, not of user list$/],
    ['client create a --again', '--again is an option of client rotate, not of client create'],
    ['client delete a --finish', '--finish is an option of client rotate, not of client delete'],
    ['client allow a revoke --may revoke', '--may is an option of client create, not of client allow'],
    ['client rotate a --audience b', '--audience is an option of client create, not of client rotate'],
    ['doctor --unheard-of', "Unknown option '--unheard-of'"],
  ] as const)
    t.throws(() => parseArguments(line.split(' ')), { constructor: UsageError, message }, line);
  t.match(parseArguments(['plan', '--growth', '3', '--json']).values, { growth: '3', json: true });
  t.end();
});

test('an option of two commands has the default of the one that is given', (t) => {
  const waitOf = (line: string) => parseArguments(line.split(' ')).values.wait;
  t.strictSame(['migrate', 'readers enforced --all', 'readers enforced --wait 7'].map(waitOf), [
    '120',
    '30',
    '7',
  ]);
  t.strictSame(parseArguments(['drill', '--url', 'a', '--url=b']).values.url, ['a', 'b']);
  t.end();
});

test('after wrong arguments, the usage is that of the command', (t) => {
  const usage = (line: string) => shortUsage(line.split(' ')).split('\n').slice(0, -1);
  t.strictSame(usage('keys list --alg ES256'), ['Usage: latchkey keys list']);
  t.strictSame(usage('recover --skip-ids'), [
    'Usage: latchkey recover [--yes]',
    '       latchkey recover --end-all',
    '       latchkey recover --keep-sessions',
    '       latchkey recover --skip-ids NUMBER',
  ]);
  t.match(usage('keys frobnicate'), [/keys list$/, /keys add /, /keys retire /, /keys doctor$/]);
  t.strictSame(usage('frobnicate'), [
    'Usage: latchkey migrate | doctor | explain | keys | readers | drill | factors | purge | recover | settings | user | client | plan',
  ]);
  t.end();
});

test('the help of a command is its part of the usage', (t) => {
  const help = usageOf('user');
  t.match(help, /^Usage: .*\n\n {2}user disable NAME .*\n/);
  t.match(help, 'NAME is a username or an e-mail address');
  t.notMatch(help, /recover|client/);
  for (const right of RIGHTS) t.match(usageOf('client'), right);
  for (const unknown of ['', 'frobnicate']) t.equal(usageOf(unknown), USAGE);
  t.end();
});

test('each command has the options that the usage names', (t) => {
  let command = '';
  let options = 0;
  for (const line of USAGE.split('\n')) {
    const [, name, left = ''] = /^ {2}([a-z]+(?: [a-z]+)?)?(.*?)(?: {2,}(?! *\[)|$)/.exec(line) ?? [];
    if (name !== undefined) command = name;
    for (const [, option = '', value] of left.matchAll(/--([a-z-]+)(?: ([^\]\s]+))?/g)) {
      const args = [...command.split(' '), `--${option}`, ...(value === undefined ? [] : [value])];
      t.ok(option in parseArguments(args).values, args.join(' '));
      options++;
    }
  }
  t.ok(options > 30, `${options}`);
  t.end();
});
