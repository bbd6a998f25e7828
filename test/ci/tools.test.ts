// suite: tools
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { PYTHON_MODULES, TOOLS } from '../support/tools.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/** Matches programs started by name or by Node's own path: `spawn('curl', …)`, `spawn(process.execPath, …)`. */
const STARTS = /(?<!\.)\b(?:spawn|spawnSync|exec|execSync|execFile|execFileSync)\(\s*([^,)\s]+)/g;

test('suites start only programs in the list of tools', (t) => {
  const started = readdirSync(join(ROOT, 'test'), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => programsIn(name, readFileSync(join(ROOT, 'test', name), 'utf8')));
  t.ok(started.length > 0, 'at least one suite starts a program');
  for (const { name, program } of started) {
    const quoted = /^'(.+)'$/.exec(program)?.[1];
    const known = program === 'process.execPath' || (quoted !== undefined && quoted in TOOLS);
    t.ok(known, `${program}, started in test/${name}, is listed in test/support/tools.ts`);
  }
  t.end();
});

test('.ci/run installs exactly the tools that suites start, and the Python modules', (t) => {
  const script = readFileSync(join(ROOT, '.ci/run'), 'utf8');
  const installed = (list: string) => {
    const [, entries = ''] = new RegExp(`^${list}=\\(\\n([^)]+)\\)`, 'm').exec(script) ?? [];
    return entries.trim().split(/\s+/).sort();
  };
  const tools = Object.entries(TOOLS).flatMap(([name, tool]) =>
    'package' in tool ? [`${name}=${tool.package}`] : [],
  );
  t.strictSame(installed('TOOLS'), tools.sort());
  for (const [name, tool] of Object.entries(TOOLS))
    if ('npm' in tool) t.match(script, new RegExp(`${tool.npm}@[^]+ ${name}/${name}\\b`), name);
  const modules = Object.entries(PYTHON_MODULES).map(([name, debian]) => `${name}=${debian}`);
  t.strictSame(installed('MODULES'), modules.sort());
  t.end();
});

function programsIn(name: string, source: string): { name: string; program: string }[] {
  if (!/^import .* from 'node:child_process';$/m.test(source)) return [];
  return [...source.matchAll(STARTS)].map(([, program = '']) => ({ name, program }));
}
