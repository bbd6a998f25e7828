import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { COSTS } from '../../src/domain/sizing/costs.ts';
import { PAGE, pageWith } from '../table.ts';
import { measuredCosts } from './costs.ts';
import { committedFigures } from './scale-document.ts';
import { figuresOf } from './tables.ts';

test('docs/performance.md shows docs/scaling.json', async (t) => {
  const page = readFileSync(PAGE, 'utf8');
  t.equal(await pageWith(page, figuresOf(committedFigures())), page);
});

test('the costs of the plan are those that the committed figures give', (t) => {
  t.strictSame(measuredCosts(), COSTS, 'npm run scale -- --costs --save');
  t.end();
});
