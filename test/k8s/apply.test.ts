import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { only } from './kinds.ts';
import { render, ROOT, scratch } from './render.ts';
import { shellBlocks } from './secrets.ts';

const skip = toolsMissing('kubectl', 'bash');
const README = readFileSync(join(ROOT, 'k8s/README.md'), 'utf8');

/** A kubectl without a cluster: each query of the Job returns its next state. */
const KUBECTL = `#!/usr/bin/env bash
echo "$*" >>"$CALLS"
real() { PATH=$REAL_PATH kubectl "$@"; }
case "$*" in
  *' get job latchkey-migrate '*)
    real patch --local -f "$(head -1 "$STATES")" --type=merge -p '{}' "\${@: -2}"
    if [ "$(wc -l <"$STATES")" -gt 1 ]; then sed -i 1d "$STATES"; fi
    ;;
  *' wait --for=condition=complete '*) grep -q '"Complete"' "$(head -1 "$STATES")" ;;
esac
`;

/** A wrapper of the real `seq`, for shorter waits. */
const SEQ = `#!/bin/sh
PATH=$REAL_PATH exec seq $(($1 / 15))
`;

for (const overlay of ['dev', 'production']) {
  test(
    `${overlay}: the rollout is waited for when the Job is done, and no longer than it takes to fail`,
    { skip },
    (t) => {
      const [, line = ''] = new RegExp(`\`(overlay=${overlay} [^\`]+)\``).exec(README) ?? [];
      const text = `${line}\n${shellBlocks('A new version')[0] ?? ''}`;
      const done = calls(t, text, [[], [], ['SuccessCriteriaMet'], ['SuccessCriteriaMet', 'Complete']]);
      t.match(done[0], /delete job latchkey-migrate --ignore-not-found$/);
      t.equal(done[1], `apply -k k8s/overlays/${overlay}`);
      t.equal(done.filter((call) => call.includes(' get job ')).length, 4);
      t.match(done.at(-1), / rollout status deployment\/latchkey /);

      const failed = calls(t, text, [[], ['FailureTarget'], ['FailureTarget', 'Failed']]);
      t.equal(failed.filter((call) => call.includes(' get job ')).length, 3);
      t.notMatch(failed.join('\n'), /rollout/);

      const stuck = calls(t, text, [[]]);
      t.equal(stuck.filter((call) => call.includes(' get job ')).length, 10, 'it gives up');
      t.match(stuck.at(-2), / describe job latchkey-migrate$/);
      t.match(stuck.at(-1), / describe pods -l app.kubernetes.io\/component=migrate$/);

      const namespace = only(render(`k8s/overlays/${overlay}`), 'Job').metadata.namespace;
      const others = [...done, ...stuck].filter((call) => !call.startsWith('apply '));
      for (const call of others) t.equal(call.split(' ')[1], namespace, call);
      t.end();
    },
  );
}

/** The arguments of each kubectl call while the Job goes through these conditions. */
function calls(t: Test, script: string, states: string[][]): string[] {
  const folder = scratch(t);
  const [bin, log, list] = [join(folder, 'bin'), join(folder, 'calls'), join(folder, 'states')];
  mkdirSync(bin);
  const tools = { kubectl: KUBECTL, sleep: '#!/bin/sh\n', seq: SEQ };
  for (const [name, content] of Object.entries(tools)) {
    writeFileSync(join(bin, name), content);
    chmodSync(join(bin, name), 0o755);
  }
  const job = only(render('k8s/base'), 'Job');
  const files = states.map((types, i) => {
    const conditions = types.map((type) => ({ type, status: 'True' }));
    const file = join(folder, `${i}.json`);
    writeFileSync(file, JSON.stringify({ ...job, status: { conditions } }));
    return file;
  });
  writeFileSync(list, `${files.join('\n')}\n`);
  const { PATH = '' } = process.env;
  const { stderr } = spawnSync('bash', ['-uo', 'pipefail'], {
    env: { PATH: `${bin}:${PATH}`, REAL_PATH: PATH, CALLS: log, STATES: list },
    input: script,
    encoding: 'utf8',
    timeout: 120_000,
  });
  if (stderr !== '') throw new Error(stderr);
  return readFileSync(log, 'utf8').trim().split('\n');
}
