// `npm run release -- VERSION [--unchecked]` writes what a release is, into release/VERSION: the image, the chart, the npm
// packages, their SBOMs, the sources, provenance, notes and sums. Uploads and signs nothing (docs/releasing.md).
// Two runs of one commit on one base image, with the same versions of the tools, give the same bytes: all is built in a
// clone, with one umask, and every time in an archive is that of the commit.
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

/** The packages of this repository that are in the image. */
const IN_IMAGE = ['node_modules/@latchkey/agent', 'node_modules/@latchkey/verifier'];

process.umask(0o022);
delete process.env.TAR_OPTIONS;
const root = new URL('..', import.meta.url).pathname;
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { unchecked: { type: 'boolean', default: false } },
});
const [version = ''] = positionals;
const { NODE_IMAGE, REPOSITORY = '', BUILDAH_OPTIONS = '' } = process.env;
const folder = join(root, 'release', version);
const work = mkdtempSync(join(tmpdir(), 'latchkey-release-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
const [source, out] = [join(work, 'source'), join(work, 'out')];

const problems = [...problemsOfTree(), ...problemsOfVersion()];
if (problems.length > 0) fail(problems.join('\n'));
if (REPOSITORY === '')
  process.stderr.write('REPOSITORY is not set: packages and image do not name their sources\n');
const tools = Object.fromEntries(
  ['node', 'npm', 'git', 'tar', 'gzip', 'buildah'].map((name) => [name, versionOf(name)]),
);

for (const each of [source, out]) mkdirSync(each);
step('cloning the commit');
run('git', ['clone', '--quiet', root, source]);
// The other workspaces are for tests, measurements and an example.
const packages = JSON.parse(readText('package.json')).workspaces.filter((each) =>
  each.startsWith('packages/'),
);
const commit = git('rev-parse', 'HEAD');
const time = git('log', '-1', '--format=%ct');
step('installing the dependencies, and the tools of scripts/release');
run('npm', ['ci', '--silent', '--no-audit', '--no-fund']);
run('npm', ['ci', '--silent', '--omit=optional', '--prefix', 'scripts/release']);
step('compiling the packages');
run('node', ['scripts/build.mjs', '--packages']);
if (!flags.unchecked) {
  step('npm run check');
  run('npm', ['run', 'check']);
}
for (const each of packages) {
  step(`packing ${each} and listing its parts`);
  pack(each);
}
step('packing the chart');
packChart();
step('building the image, and listing its parts');
const { base, digest } = buildImage();
step('archiving the sources, writing the notes, the provenance and the sums');
const sources = `latchkey-source-${version}.tar.gz`;
run('git', ['archive', `--prefix=latchkey-${version}/`, '-o', join(out, sources), 'HEAD']);
const where = `The documents are in \`${sources}\`. The digest of the image is \`${digest}\`.`;
writeFileSync(join(out, 'RELEASE-NOTES.md'), `${notes()}\n${where}\n`);
writeJson('provenance.intoto.json', provenance());
const lines = sums().map(({ name, sha256 }) => `${sha256}  ${name}\n`);
writeFileSync(join(out, 'SHA256SUMS'), lines.join(''));
cpSync(out, folder, { recursive: true });
step('done');
process.stdout.write(`${folder}\n`);

function problemsOfTree() {
  return [
    ...(gitHere('status', '--porcelain') === '' ? [] : ['the folder has changes that are not committed']),
    ...(gitHere('rev-parse', '--abbrev-ref', 'HEAD') === 'main' ? [] : ['the branch is not main']),
    ...(existsSync(folder) ? [`${folder} exists: remove it first`] : []),
  ];
}

function problemsOfVersion() {
  if (!/^\d+\.\d+\.\d+(-[0-9a-z.-]+)?$/.test(version)) return ['give a version: npm run release -- 1.2.3'];
  const manifests = gitHere('ls-files', 'package.json', 'packages/*/package.json').split('\n');
  const stated = [
    ...manifests.map((file) => [file, /^ {2}"version": "(.*)"/m]),
    ['charts/latchkey/Chart.yaml', /^version: (.*)$/m],
    ['charts/latchkey/Chart.yaml', /^appVersion: (.*)$/m],
    ['Dockerfile', /^ARG VERSION=(.*)$/m],
  ].map(([file, pattern]) => [file, pattern.exec(readText(file, root))?.[1]]);
  const wrong = stated.filter(([, found]) => found !== version);
  return [
    ...wrong.map(([file, found]) => `${file} says ${found}: npm run set-version -- ${version}, and commit`),
    ...(notes(root) === '' ? [`CHANGELOG.md has no section "## ${version}"`] : []),
  ];
}

/** @throws if the tool is missing */
function versionOf(tool) {
  return output(tool, ['--version'], root).split('\n')[0];
}

/** A copy, because REPOSITORY stands in no commit. */
function pack(folder) {
  const copy = join(work, folder);
  const manifest = JSON.parse(readText(`${folder}/package.json`));
  for (const name of [...manifest.files, 'README.md', 'LICENSE'])
    cpSync(join(source, folder, name), join(copy, name), { recursive: true });
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
  // The others are programs, which nobody can `require`.
  const profile = manifest.exports['.'] ? 'node16' : 'esm-only';
  run(tool('attw'), [packed, '--profile', profile, '--format', 'ascii']);
  const bom = sbomOf(['--workspace', manifest.name, '--no-include-workspace-root']);
  const own = bom.components.findIndex((component) => component.purl.startsWith(purlOf(manifest)));
  [bom.metadata.component] = bom.components.splice(own, 1);
  writeJson(basename(packed).replace('.tgz', '.cdx.json'), bom);
}

/** `helm package` writes the time of day into the archive. */
function packChart() {
  archive(
    join(out, `latchkey-chart-${version}.tgz`),
    join(source, 'charts'),
    ['latchkey'],
    ['--use-compress-program', 'gzip -n'],
  );
}

/** @returns the base image with its digest, and the digest of the image */
function buildImage() {
  const [, documented] = /^ARG NODE_IMAGE=(.*)$/m.exec(readText('Dockerfile')) ?? [];
  const name = NODE_IMAGE ?? documented;
  writeJson(`latchkey-image-${version}.cdx.json`, imageBom(name));
  cpSync(join(out, `latchkey-image-${version}.cdx.json`), join(source, 'sbom.cdx.json'));
  const tag = `localhost/latchkey:${version}`;
  const labels = REPOSITORY === '' ? [] : ['--label', `org.opencontainers.image.source=${REPOSITORY}`];
  run('buildah', [
    'build',
    '--format',
    'oci',
    '--timestamp',
    time,
    '--layers=false',
    '--tag',
    tag,
    ...labels,
    '--build-arg',
    `NODE_IMAGE=${name}`,
    '--build-arg',
    `VERSION=${version}`,
    '--build-arg',
    `REVISION=${commit}`,
    ...BUILDAH_OPTIONS.split(' ').filter(Boolean),
    source,
  ]);
  const layout = join(work, 'image');
  run('buildah', ['push', '--quiet', tag, `oci:${layout}:${tag}`]);
  archive(join(out, `latchkey-image-${version}.oci.tar`), layout, readdirSync(layout).sort());
  const inspect = ['inspect', '--type', 'image', '--format', '{{.FromImageDigest}}', name];
  const [manifest] = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')).manifests;
  return { base: { name, digest: output('buildah', inspect) }, digest: manifest.digest };
}

/** Node, and what the Dockerfile installs. The tool lists peers as well, which nothing in the image needs. */
function imageBom(base) {
  const installed = join(work, 'installed');
  for (const name of ['package.json', 'package-lock.json', '.npmrc'])
    cpSync(join(source, name), join(installed, name));
  const omit = ['dev', 'optional', 'peer'].flatMap((kind) => ['--omit', kind]);
  run('npm', ['ci', '--silent', '--ignore-scripts', '--workspaces=false', ...omit, '--prefix', installed]);
  const bom = sbomOf([]);
  const isThere = (component) => {
    const { value } = component.properties.find(({ name }) => name === 'cdx:npm:package:path');
    return IN_IMAGE.includes(value) || existsSync(join(installed, value));
  };
  const [, node] = /node[^:]*:(\d+\.\d+\.\d+)/.exec(base) ?? [];
  if (!node) fail(`NODE_IMAGE must name the version of Node: ${base}`);
  const cpe = `cpe:2.3:a:nodejs:node.js:${node}:*:*:*:*:*:*:*`;
  const runtime = { type: 'platform', name: 'node', version: node, 'bom-ref': 'node', cpe };
  bom.components = [runtime, ...bom.components.filter(isThere)];
  const refs = new Set([bom.metadata.component, ...bom.components].map((component) => component['bom-ref']));
  bom.dependencies = bom.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  return bom;
}

/** Without the machine's npm among the tools. */
function sbomOf(options) {
  const omit = ['dev', 'optional', 'peer'].flatMap((kind) => ['--omit', kind]);
  const words = [...options, ...omit, '--flatten-components', '--output-reproducible', '--output-file', '-'];
  const bom = JSON.parse(output(tool('cyclonedx-npm'), words));
  const { tools } = bom.metadata;
  tools.components = tools.components.filter(({ name }) => name !== 'npm');
  return bom;
}

/** Of scripts/release. */
function tool(name) {
  return join(source, 'scripts/release/node_modules/.bin', name);
}

function purlOf({ name }) {
  return `pkg:npm/${name.replace('@', '%40')}@`;
}

/** The section of the changelog. */
function notes(from = source) {
  const [, ...sections] = readText('CHANGELOG.md', from).split(/^## /m);
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
        internalParameters: { tools },
        resolvedDependencies: [
          {
            name: 'sources',
            ...(REPOSITORY !== '' && { uri: `git+${REPOSITORY}` }),
            digest: { gitCommit: commit },
          },
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
    '--format=gnu',
    '--sort=name',
    `--mtime=@${time}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rw,go=rX',
  ];
  run('tar', [...same, ...options, '-cf', file, '-C', folder, ...names]);
}

function readText(path, from = source) {
  return existsSync(join(from, path)) ? readFileSync(join(from, path), 'utf8') : '';
}

function writeJson(name, value) {
  writeFileSync(join(out, name), `${JSON.stringify(value, null, 2)}\n`);
}

function git(...words) {
  return output('git', words);
}

function gitHere(...words) {
  return output('git', words, root);
}

function output(program, words, cwd = source) {
  const { status, stdout, stderr, error } = spawnSync(program, words, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1e8,
  });
  if (status !== 0) fail(`${program} ${words.join(' ')} failed: ${error?.message ?? stderr}`);
  return stdout.trim();
}

function run(program, words) {
  const { status, error } = spawnSync(program, words, { cwd: source, stdio: ['ignore', 2, 2] });
  if (status !== 0) fail(`${program} ${words.join(' ')} failed${error ? `: ${error.message}` : ''}`);
}

/** Says what begins now, and how long the release has taken so far: most commands below print nothing. */
function step(what) {
  process.stderr.write(`${String(Math.round(process.uptime())).padStart(4)} s  ${what}\n`);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
