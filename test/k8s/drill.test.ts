import { test, type Test } from 'tap';
import { parseArguments } from '../../src/cli/arguments.ts';
import { loadSettings } from '../../src/config/config.ts';
import { toolsMissing } from '../support/tools.ts';
import { template } from './chart.ts';
import { allOf, only, workloadsOf, type Manifest } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { isAllowed, type Peer } from './network.ts';
import { scratch } from './render.ts';
import { madeSecrets } from './secrets.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');
const NAMESPACE = 'latchkey';

test('the drill’s pod runs the command with what the values say, once', { skip }, (t) => {
  const { spec } = only(template('company'), 'CronJob', 'latchkey-drill').jobTemplateOf;
  t.equal(spec.backoffLimit, 0, 'a finding is not drilled away');
  t.end();
});

test('without `drill.enabled` nothing of it is there', { skip }, (t) => {
  t.end();
});
