import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { COSTS } from '../../src/domain/sizing/costs.ts';
import { ROOT } from '../../test/support/documents.ts';
import { pageWith } from '../table.ts';
import { measuredCosts } from './costs.ts';
import { committedFigures } from './scale-document.ts';
import { figuresOf } from './tables.ts';

test('docs/scaling.md shows the committed figures', async (t) => {
  const page = readFileSync(join(ROOT, 'docs/scaling.md'), 'utf8');
  t.equal(await pageWith(page, figuresOf(committedFigures())), page);
});

test('the costs of the plan are those that the committed figures give', (t) => {
  t.strictSame(measuredCosts(), COSTS, 'npm run scale -- --costs --save');
  t.end();
});
