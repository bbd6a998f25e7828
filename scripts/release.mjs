// `npm run release -- VERSION [--out FOLDER] [--unchecked]` writes what a release is, into release/VERSION: the image, the
// chart, the npm packages, their SBOMs, provenance, notes and sums. Uploads and signs nothing (docs/releasing.md).
// Two runs of one commit on one base image give the same bytes: every time in an archive is that of the commit.
// Environment: NODE_IMAGE, the base (default: the Dockerfile's); REPOSITORY, the public URL of the sources, which then
// stands in the packages and the image; BUILDAH_OPTIONS, words for `buildah build` (a proxy, a certificate).
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';

/** Not in the image. */
const ONLY_PACKAGES = ['@latchkey/client', '@latchkey/load'];

const root = new URL('..', import.meta.url).pathname;
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: 'string' }, unchecked: { type: 'boolean', default: false } },
});
const [version = ''] = positionals;
const { NODE_IMAGE, REPOSITORY = '', BUILDAH_OPTIONS = '' } = process.env;
const packages = JSON.parse(readText('package.json')).workspaces;
const commit = git('rev-parse', 'HEAD');
const time = git('log', '-1', '--format=%ct');
const out = flags.out ?? join(root, 'release', version);
const work = mkdtempSync(join(tmpdir(), 'latchkey-release-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));

const problems = [...problemsOfTree(), ...problemsOfVersion()];
if (problems.length > 0) fail(problems.join('\n'));

run('npm', ['ci', '--silent', '--omit=optional', '--prefix', 'scripts/release']);
run('node', ['scripts/build.mjs']);
if (!flags.unchecked) run('npm', ['run', 'check']);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const folder of packages) pack(folder);
packChart();
const base = buildImage();
writeFileSync(join(out, 'RELEASE-NOTES.md'), notes());
writeJson('provenance.intoto.json', provenance());
writeFileSync(
  join(out, 'SHA256SUMS'),
  sums()
    .map(({ name, sha256 }) => `${sha256}  ${name}\n`)
    .join(''),
);
process.stdout.write(`${out}\n`);

function problemsOfTree() {
  return [
    ...(git('status', '--porcelain') === '' ? [] : ['the folder has changes that are not committed']),
    ...(git('rev-parse', '--abbrev-ref', 'HEAD') === 'main' ? [] : ['the branch is not main']),
  ];
}

function problemsOfVersion() {
  if (!/^\d+\.\d+\.\d+(-[0-9a-z.-]+)?$/.test(version)) return ['give a version: npm run release -- 1.2.3'];
  const stated = ['package.json', ...packages.map((folder) => `${folder}/package.json`)].map((file) => [
    file,
    JSON.parse(readText(file)).version,
  ]);
  const [, chart] = /^version: (.*)$/m.exec(readText('charts/latchkey/Chart.yaml')) ?? [];
  const [, app] = /^appVersion: "?([^"\n]*)/m.exec(readText('charts/latchkey/Chart.yaml')) ?? [];
  const [, label] = /^ARG VERSION=(.*)$/m.exec(readText('Dockerfile')) ?? [];
  stated.push(
    ['charts/latchkey/Chart.yaml (version)', chart],
    ['charts/latchkey/Chart.yaml (appVersion)', app],
  );
  stated.push(['Dockerfile (VERSION)', label]);
  const wrong = stated.filter(([, found]) => found !== version);
  return [
    ...wrong.map(([file, found]) => `${file} says ${found}: commit the version ${version} first`),
    ...(notes() === '' ? [`CHANGELOG.md has no section "## ${version}"`] : []),
  ];
}

/** A copy, because npm writes into no tree that is being released, and REPOSITORY stands in no commit. */
function pack(folder) {
  const copy = join(work, folder);
  const manifest = JSON.parse(readText(`${folder}/package.json`));
  for (const name of [...manifest.files, 'README.md', 'LICENSE'])
    cpSync(join(root, folder, name), join(copy, name), { recursive: true });
  delete manifest.scripts;
  if (REPOSITORY !== '') {
    const page = REPOSITORY.replace(/\.git$/, '');
    manifest.repository = { type: 'git', url: `git+${page}.git`, directory: folder };
    manifest.homepage = `${page}/tree/main/${folder}#readme`;
    manifest.bugs = `${page}/issues`;
  }
  writeFileSync(join(copy, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', out, copy]);
  const packed = join(out, `${manifest.name.slice(1).replace('/', '-')}-${version}.tgz`);
  run(tool('publint'), ['--strict', packed]);
  run(tool('attw'), [packed, '--profile', 'esm-only', '--format', 'ascii']);
  const bom = sbomOf(['--workspace', manifest.name, '--no-include-workspace-root']);
  const own = bom.components.findIndex((component) => component.purl.startsWith(purlOf(manifest)));
  [bom.metadata.component] = bom.components.splice(own, 1);
  writeJson(basename(packed).replace('.tgz', '.cdx.json'), bom);
}

/** `helm package` writes the time of day into the archive. */
function packChart() {
  archive(
    join(out, `latchkey-chart-${version}.tgz`),
    join(root, 'charts'),
    ['latchkey'],
    ['--use-compress-program', 'gzip -n'],
  );
}

/** @returns the base image, with its digest */
function buildImage() {
  const [, documented] = /^ARG NODE_IMAGE=(.*)$/m.exec(readText('Dockerfile')) ?? [];
  const name = NODE_IMAGE ?? documented;
  const context = join(work, 'context');
  run('git', ['clone', '--quiet', root, context]);
  const bom = sbomOf([]);
  bom.components = bom.components.filter(
    ({ purl }) => !ONLY_PACKAGES.some((name) => purl.startsWith(purlOf({ name }))),
  );
  writeJson(`latchkey-image-${version}.cdx.json`, bom);
  cpSync(join(out, `latchkey-image-${version}.cdx.json`), join(context, 'sbom.cdx.json'));
  const tag = `localhost/latchkey:${version}`;
  const labels = REPOSITORY === '' ? [] : ['--label', `org.opencontainers.image.source=${REPOSITORY}`];
  run('buildah', [
    ...['build', '--format', 'oci', '--timestamp', time, '--layers=false', '--tag', tag, ...labels],
    ...[
      '--build-arg',
      `NODE_IMAGE=${name}`,
      '--build-arg',
      `VERSION=${version}`,
      '--build-arg',
      `REVISION=${commit}`,
    ],
    ...BUILDAH_OPTIONS.split(' ').filter(Boolean),
    context,
  ]);
  const layout = join(work, 'image');
  run('buildah', ['push', '--quiet', tag, `oci:${layout}:${tag}`]);
  archive(join(out, `latchkey-image-${version}.oci.tar`), layout, readdirSync(layout).sort());
  const digest = output('buildah', ['inspect', '--type', 'image', '--format', '{{.FromImageDigest}}', name]);
  return { name, digest };
}

function sbomOf(options) {
  const omit = ['dev', 'optional', 'peer'].flatMap((kind) => ['--omit', kind]);
  return JSON.parse(
    output(tool('cyclonedx-npm'), [...options, ...omit, '--output-reproducible', '--output-file', '-']),
  );
}

/** Of scripts/release. */
function tool(name) {
  return join(root, 'scripts/release/node_modules/.bin', name);
}

function purlOf({ name }) {
  return `pkg:npm/${name.replace('@', '%40')}@`;
}

/** The section of the changelog. */
function notes() {
  const [, ...sections] = readText('CHANGELOG.md').split(/^## /m);
  return (
    sections.find((section) => section.startsWith(`${version}\n`) || section.startsWith(`${version} `)) ?? ''
  );
}

/** SLSA provenance, version 1, in an in-toto statement, version 1. */
function provenance() {
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: sums().map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:latchkey:release:v1',
        externalParameters: { version, repository: REPOSITORY },
        resolvedDependencies: [
          { uri: REPOSITORY === '' ? 'git' : `git+${REPOSITORY}`, digest: { gitCommit: commit } },
          { uri: base.name, digest: { sha256: base.digest.replace('sha256:', '') } },
        ],
      },
      runDetails: { builder: { id: 'urn:latchkey:npm-run-release' } },
    },
  };
}

function sums() {
  return readdirSync(out)
    .sort()
    .map((name) => ({
      name,
      sha256: createHash('sha256')
        .update(readFileSync(join(out, name)))
        .digest('hex'),
    }));
}

/** One order, one owner and the commit’s time, so that the same files are the same bytes. */
function archive(file, folder, names, options = []) {
  const same = [
    '--sort=name',
    `--mtime=@${time}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rw,go=rX',
  ];
  run('tar', [...same, ...options, '-cf', file, '-C', folder, ...names]);
}

function readText(path) {
  return existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : '';
}

function writeJson(name, value) {
  writeFileSync(join(out, name), `${JSON.stringify(value, null, 2)}\n`);
}

function git(...words) {
  return output('git', words);
}

function output(program, words) {
  const { status, stdout, stderr, error } = spawnSync(program, words, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1e8,
  });
  if (status !== 0) fail(`${program} ${words.join(' ')} failed: ${error?.message ?? stderr}`);
  return stdout.trim();
}

function run(program, words) {
  const { status, error } = spawnSync(program, words, {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) fail(`${program} ${words.join(' ')} failed${error ? `: ${error.message}` : ''}`);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
