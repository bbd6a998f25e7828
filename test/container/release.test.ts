// release
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { buildImage, containers, CONTAINER_TOOLS } from '../support/container.ts';
import { readDocument, ROOT } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';
import { inspectImage } from '../support/image.ts';
import { readBlocks } from '../support/markdown.ts';
import { redisMissing } from '../support/redis.ts';
import { toolsMissing } from '../support/tools.ts';
import { followFolder } from './release-folder.ts';

const IMAGE = 'localhost/latchkey:test';
/** The image of the release. */
const LOADED = 'localhost/latchkey-release:test';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
const REPOSITORY = 'https://git.example.com/latchkey';

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const skip = toolsMissing(...CONTAINER_TOOLS, 'bash', 'npm', 'openssl', 'sha256sum', 'tar') || redisMissing;

interface Bom {
  metadata: { component: { purl: string } };
  components: { group?: string; name: string; version: string }[];
}

test('a release', { skip, timeout: 900_000 }, async (t) => {
  await buildImage(ROOT, IMAGE);
  const engine = containers(t, IMAGE);
  const base = (await inspectImage(engine, IMAGE)).Labels['org.opencontainers.image.base.name'] ?? '';
  const env = environmentOf(t, base);
  const source = aCheckout(t);
  const folder = released(t, source, env);
  const file = (name: string) => readFileSync(join(folder, name), 'utf8');
  const json = (name: string) => JSON.parse(file(name)) as unknown;

  await t.test('has every artefact, and its sums match', (t) => {
    const names = ['verifier', 'agent', 'client', 'load'].flatMap((name) => [
      `latchkey-${name}-${version}.cdx.json`,
      `latchkey-${name}-${version}.tgz`,
    ]);
    const image = [`latchkey-image-${version}.cdx.json`, `latchkey-image-${version}.oci.tar`];
    const others = [
      'RELEASE-NOTES.md',
      'SHA256SUMS',
      'provenance.intoto.json',
      `latchkey-chart-${version}.tgz`,
      `latchkey-source-${version}.tar.gz`,
    ];
    t.strictSame(readdirSync(folder).sort(), [...names, ...image, ...others].sort());
    const { subject, predicate } = json('provenance.intoto.json') as {
      subject: { name: string; digest: { sha256: string } }[];
      predicate: { buildDefinition: { resolvedDependencies: { digest: Record<string, string> }[] } };
    };
    for (const { name, digest } of subject) t.match(file('SHA256SUMS'), `${digest.sha256}  ${name}\n`);
    const [commit, node] = predicate.buildDefinition.resolvedDependencies.map(({ digest }) => digest);
    t.equal(commit?.gitCommit, git(source, 'rev-parse', 'HEAD'));
    t.match(node?.sha256, /^[0-9a-f]{64}$/);
    t.ok(file('RELEASE-NOTES.md').startsWith(version));
    t.end();
  });

  await t.test('is verified by the commands of SECURITY.md, with a key of the maintainer', (t) => {
    const copy = testFolder(t);
    cpSync(folder, copy, { recursive: true });
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    writeFileSync(join(copy, 'release.key'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    writeFileSync(join(copy, 'release.pub'), publicKey.export({ type: 'spki', format: 'pem' }));
    const sign = /^openssl dgst -sha256 -sign .*$/m.exec(readDocument('docs/releasing.md'))?.[0] ?? '';
    t.equal(shell(copy, sign.replaceAll(`release/${version}/`, '')).status, 0);
    const verify =
      readBlocks(readDocument('SECURITY.md')).find(({ text }) => text.includes('-verify'))?.text ?? '';
    t.equal(shell(copy, `set -e\n${verify}`).status, 0);
    for (const name of ['SHA256SUMS', `latchkey-agent-${version}.tgz`]) {
      const kept = readFileSync(join(copy, name));
      writeFileSync(join(copy, name), Buffer.concat([kept, Buffer.from('x')]));
      t.not(shell(copy, `set -e\n${verify}`).status, 0, `${name} was changed`);
      writeFileSync(join(copy, name), kept);
    }
    t.end();
  });

  await t.test('packages name their sources, and SBOMs what they install', (t) => {
    const unpacked = testFolder(t);
    tar('-xzf', join(folder, `latchkey-agent-${version}.tgz`), '-C', unpacked);
    const manifest = JSON.parse(readFileSync(join(unpacked, 'package/package.json'), 'utf8')) as object;
    t.match(manifest, { version, repository: { url: `git+${REPOSITORY}.git`, directory: 'packages/agent' } });
    t.notOk('scripts' in manifest);
    const bom = json(`latchkey-agent-${version}.cdx.json`) as Bom;
    t.equal(bom.metadata.component.purl.split('?')[0], `pkg:npm/%40latchkey/agent@${version}`);
    t.strictSame(bom.components.map(nameOf).sort(), ['@latchkey/verifier', 'jose']);
    tar('-xzf', join(folder, `latchkey-verifier-${version}.tgz`), '-C', unpacked);
    const licences = readFileSync(join(unpacked, 'package/dist/cjs/LICENSES.md'), 'utf8');
    const { components } = json(`latchkey-verifier-${version}.cdx.json`) as Bom;
    const installed = components.map((each) => `## ${nameOf(each)} ${each.version}`);
    t.strictSame(licences.match(/^## .*$/gm), installed, 'and what the CommonJS build holds');
    t.end();
  });

  await t.test('the image has the SBOM, which lists its node_modules, and no npm', async (t) => {
    const archive = join(folder, `latchkey-image-${version}.oci.tar`);
    t.equal(
      shell(
        '.',
        `buildah pull --quiet oci-archive:${archive} && buildah tag localhost/latchkey:${version} ${LOADED}`,
      ).status,
      0,
    );
    const { Labels } = await inspectImage(engine, LOADED);
    t.match(Labels, {
      'org.opencontainers.image.source': REPOSITORY,
      'org.opencontainers.image.version': version,
    });
    const list = `
      const fs = require('fs');
      const packages = fs.globSync('node_modules/**/node_modules/{*,@*/*}/package.json')
        .concat(fs.globSync('node_modules/{*,@*/*}/package.json'))
        .map((path) => JSON.parse(fs.readFileSync(path, 'utf8')))
        .map(({ name, version }) => name + '@' + version);
      const bom = fs.readFileSync('sbom.cdx.json', 'utf8');
      console.log(JSON.stringify({ packages, bom, npm: fs.existsSync('/usr/local/bin/npm') }));`;
    const { output } = await containers(t, LOADED).run({}, ['--rm'], ['node', '-e', list]);
    const inside = JSON.parse(output) as { packages: string[]; bom: string; npm: boolean };
    t.equal(inside.bom, file(`latchkey-image-${version}.cdx.json`));
    const { components } = JSON.parse(inside.bom) as Bom;
    const [node, ...listed] = components.map((each) => `${nameOf(each)}@${each.version}`);
    t.match(node, /^node@\d+\.\d+\.\d+$/);
    // In dist/agent.
    const agent = `@latchkey/agent@${version}`;
    t.strictSame(new Set(listed), new Set([...inside.packages, agent]));
    t.notOk(inside.npm);
    const { manifests } = JSON.parse(shell(folder, `tar -xOf ${archive} index.json`).stdout) as {
      manifests: { digest: string }[];
    };
    t.match(file('RELEASE-NOTES.md'), `\`${manifests[0]?.digest}\``);
  });

  await t.test('is all that a new user needs', (t) => followFolder(t, folder, version));

  await t.test('a second one from another folder has the same bytes', (t) => {
    const again = released(t, aCheckout(t, source), env, '077');
    t.equal(readFileSync(join(again, 'SHA256SUMS'), 'utf8'), file('SHA256SUMS'));
    t.end();
  });

  await t.test('is refused for a changed tree, another branch, and a version that is not stated', (t) => {
    t.match(release(source, env, version).stderr, 'exists: remove it first');
    writeFileSync(join(source, 'package.json'), readFileSync(join(source, 'package.json'), 'utf8') + '\n');
    git(source, 'switch', '--quiet', '--create', 'other');
    const { status, stderr } = release(source, env, '9.9.9');
    t.equal(status, 1);
    for (const problem of [
      /changes that are not committed/,
      /the branch is not main/,
      `packages/agent/package.json says ${version}`,
      `Chart.yaml says ${version}`,
      'CHANGELOG.md has no section "## 9.9.9"',
    ])
      t.match(stderr, problem);
    t.equal(shell(source, 'npm run set-version -- 9.9.9').status, 0);
    t.notMatch(release(source, env, '9.9.9').stderr, / says /);
    const left = shell(source, `git grep -F latchkey:${version} -- docs k8s charts compose.yaml`);
    t.equal(left.stdout, '');
    t.end();
  });
});

function nameOf({ group, name }: { group?: string; name: string }): string {
  return group === undefined ? name : `${group}/${name}`;
}

/** What this machine needs besides, as build-image.sh has it. */
function environmentOf(t: Test, base: string) {
  const npmrc = join(testFolder(t), 'npmrc');
  writeFileSync(npmrc, `cafile=${CERTIFICATES}\n`);
  const volumes = [`${CERTIFICATES}:${CERTIFICATES}:ro`, `${npmrc}:/root/.npmrc:ro`].flatMap((each) => [
    '--volume',
    each,
  ]);
  const files = shell('.', 'ulimit -Hn').stdout.trim();
  const options = ['--network', 'host', '--pull-never', '--ulimit', `nofile=${files}`, ...volumes];
  return [
    `NODE_IMAGE=${base}`,
    `REPOSITORY=${REPOSITORY}`,
    `BUILDAH_OPTIONS=${options.join(' ')}`,
    'BUILDAH_ISOLATION=chroot',
  ];
}

/** A clone of main with a changelog that has the section. */
function aCheckout(t: Test, from?: string): string {
  const folder = join(testFolder(t), 'checkout');
  git('.', 'clone', '--quiet', from ?? ROOT, folder);
  git(folder, 'switch', '--quiet', '--force-create', 'main');
  if (from !== undefined) return folder;
  const changelog = join(folder, 'CHANGELOG.md');
  writeFileSync(changelog, readFileSync(changelog, 'utf8').replace('## Unreleased', `## ${version}`));
  const author = ['-c', 'user.name=A maintainer', '-c', 'user.email=maintainer@example.com'];
  git(folder, ...author, 'commit', '--quiet', '--all', '--allow-empty', '--message', `Version ${version}`);
  return folder;
}

function released(t: Test, source: string, env: readonly string[], umask = '022'): string {
  const { status, stderr } = release(source, env, version, umask);
  t.equal(status, 0, stderr.slice(-2000));
  for (const step of ['cloning', 'installing', 'packing packages/verifier', 'building the image', 'done'])
    t.match(stderr, new RegExp(`^ *\\d+ s  ${step}`, 'm'), 'it says what it does');
  return join(source, 'release', version);
}

function release(source: string, env: readonly string[], wanted: string, umask = '022') {
  const program = [process.execPath, 'scripts/release.mjs', wanted, '--unchecked'];
  return spawnSync('bash', ['-c', `umask ${umask}; exec env "$@"`, 'env', ...env, ...program], {
    cwd: source,
    encoding: 'utf8',
  });
}

function shell(cwd: string, script: string) {
  return spawnSync('bash', ['-c', script], { cwd, encoding: 'utf8' });
}

function tar(...words: string[]): void {
  spawnSync('tar', words);
}

function git(cwd: string, ...words: string[]): string {
  const { status, stdout, stderr } = spawnSync('git', words, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`git ${words.join(' ')}: ${stderr}`);
  return stdout.trim();
}
