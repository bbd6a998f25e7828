import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

/** A temporary folder. It is removed after the teardown of everything that the test starts later. */
export function testFolder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'latchkey-test-'));
  t.teardown(() => {
    rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  });
  return path;
}
