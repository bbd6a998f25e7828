import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DockerfileParser, From, Healthcheck, JSONInstruction, type Instruction } from 'dockerfile-ast';
import { validate } from 'dockerfile-utils';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;
const DOCKERFILE = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
const SCHEMA = readFileSync(join(ROOT, 'prisma/schema.prisma'), 'utf8');

test('the linter finds nothing', (t) => {
  t.strictSame(lint(DOCKERFILE), []);
  t.end();
});

test('follows our rules for images', (t) => {
  t.strictSame(problemsOf(DOCKERFILE), []);
  t.end();
});

function lint(text: string): string[] {
  return validate(text).map(
    ({ message, range }) => `line ${range.start.line + 1}: ${JSON.stringify(message)}`,
  );
}

/** Our rules for an image, beyond a successful build. */
function problemsOf(text: string): string[] {
  const file = DockerfileParser.parse(text);
  const all = file.getInstructions();
  const last = all.slice(all.findLastIndex((instruction) => instruction instanceof From));
  const named = (name: string, among: Instruction[] = all) =>
    among.filter((instruction) => instruction.getKeyword() === name);
  const expect = (fine: boolean, problem: string) => (fine ? [] : [problem]);
  const words = (instruction: Instruction) => instruction.getArguments().map(String);

  const bases = all.filter((instruction): instruction is From => instruction instanceof From);
  const images = bases.map((from) => from.getImage() ?? '');
  const [base = ''] = file.getInitialARGs().map((arg) => arg.getProperty()?.getValue() ?? '');
  const user = named('USER', last).flatMap(words).join();
  const labels = named('LABEL', last)
    .map((label) => label.getRawArgumentsContent() ?? '')
    .join('\n');
  const { version, workspaces } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
    workspaces: string[];
  };
  const [, compiler = 'fast'] = /^ *compilerBuild += "(\w+)"$/m.exec(SCHEMA) ?? [];
  const copied = named('COPY').flatMap(words);
  const installs = named('RUN').filter((run) => (run.getRawArgumentsContent() ?? '').includes('npm ci'));
  const given = [...named('ENV'), ...named('ARG')].map((each) => each.getRawArgumentsContent() ?? '');

  return [
    ...expect(
      /\/node:\d+\.\d+\.\d+-[a-z]+-slim@sha256:[0-9a-f]{64}$/.test(base),
      `base is not pinned exactly: ${base}`,
    ),
    ...expect(
      images.slice(0, -1).every((image) => image === '${NODE_IMAGE}'),
      'more than one base',
    ),
    ...expect(images.at(-1) === 'scratch', 'the last base is not scratch'),
    ...expect(/^[1-9]\d*:[1-9]\d*$/.test(user), `user is not a number above 0: ${user}`),
    ...expect(named('CMD', last).length === 1 && named('CMD', last).every(isExec), 'CMD needs a shell'),
    ...expect(hasExecHealthcheck(last), 'HEALTHCHECK is missing or needs a shell'),
    ...expect(named('ENTRYPOINT', last).length === 0, 'ENTRYPOINT hides the commands'),
    ...expect(installs.length === 2, 'npm ci is not run twice'),
    ...installs.flatMap((run) =>
      expect(run.getTextContent().startsWith('RUN --mount=type=cache,target=/root/.npm '), 'no cache'),
    ),
    ...expect(named('RUN', last).length === 0, 'RUN in the last stage'),
    ...expect(named('ADD').length === 0, 'ADD instead of COPY'),
    ...expect(named('COPY', last).flatMap(words).includes('LICENSE'), 'no LICENSE'),
    ...expect(
      !given.some((text) => /SECRET|PASSWORD|TOKEN|_URL/.test(text)),
      'a secret would stay in the image',
    ),
    // The lock file names each of them.
    ...workspaces.flatMap((folder) =>
      expect(copied.includes(`${folder}/package.json`), `no package.json of ${folder}`),
    ),
    ...expect(
      text.includes(`! -name 'query_compiler_${compiler}_bg.postgresql.*'`),
      `the image lacks the query compiler of prisma/schema.prisma: ${compiler}`,
    ),
    ...expect(given.includes(`VERSION=${version}`), 'version is not that of package.json'),
    ...['title', 'description', 'licenses', 'version', 'revision', 'base.name'].flatMap((name) =>
      expect(labels.includes(`org.opencontainers.image.${name}=`), `no label ${name}`),
    ),
  ];
}

function isExec(instruction: Instruction): boolean {
  return instruction instanceof JSONInstruction && instruction.getOpeningBracket() !== null;
}

function hasExecHealthcheck(last: Instruction[]): boolean {
  const checks = last.filter((instruction): instruction is Healthcheck => instruction instanceof Healthcheck);
  return checks.length === 1 && /\bCMD\s+\[/.test(checks[0]?.getTextContent() ?? '');
}
