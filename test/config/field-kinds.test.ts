import { test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { problemsOf } from '../support/config-problems.ts';

const read = (CORS_ORIGINS: string) => loadConfig({ CORS_ORIGINS }, 2 ** 40).CORS_ORIGINS;

test('CORS_ORIGINS is off by default', (t) => {
  t.equal(loadConfig({}, 2 ** 40).CORS_ORIGINS, null);
  t.equal(read(''), null);
  t.equal(read(' , '), null);
  t.end();
});

test('CORS_ORIGINS takes exact origins', (t) => {
  t.strictSame(read('https://app.example, http://localhost:5173,https://[::1]:8443,https://app.example'), [
    'https://app.example',
    'http://localhost:5173',
    'https://[::1]:8443',
  ]);
  const ofApps = [
    'capacitor://localhost',
    'ionic://localhost',
    'tauri://localhost:1420',
    'app://com.example.shop',
    'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
  ];
  t.strictSame(read(ofApps.join()), ofApps, 'of any scheme');
  t.end();
});

test('anything else is refused with what to write', (t) => {
  const refused: [value: string, problem: RegExp][] = [
    ['*', /^CORS_ORIGINS must name each origin: with \*/],
    ['https://*.app.example', /^CORS_ORIGINS must name each origin/],
    ['null', /^CORS_ORIGINS must not hold null/],
    ['https://app.example/', /trailing slash: write https:\/\/app\.example$/],
    ['https://app.example/login', /without path .*: write https:\/\/app\.example$/],
    ['https://app.example?x=1', /write https:\/\/app\.example$/],
    ['https://App.Example', /write https:\/\/app\.example$/],
    ['https://app.example:443', /write https:\/\/app\.example$/],
    ['https://ada:secret@app.example', /write https:\/\/app\.example$/],
    ['app.example', /such as https:\/\/app\.example\.com/],
    ['localhost:5173', /such as/],
    ['https://', /such as/],
    ['capacitor://', /such as https:\/\/app\.example\.com or capacitor:\/\/localhost/],
    ['capacitor:localhost', /such as/],
    ['data:text/html,x', /such as/],
    ['capacitor://*', /must name each origin/],
    ['capacitor://localhost/', /trailing slash: write capacitor:\/\/localhost$/],
    ['capacitor://localhost/index.html?x#y', /write capacitor:\/\/localhost$/],
    ['capacitor://LocalHost', /in lower case.*: write capacitor:\/\/localhost$/],
    ['Capacitor://localhost', /write capacitor:\/\/localhost$/],
    ['capacitor://ada:secret@localhost', /write capacitor:\/\/localhost$/],
    ['file:///tmp/x', /^CORS_ORIGINS must not hold file: origins/],
    ['file://', /must not hold file: origins/],
    ['file://share', /must not hold file: origins/],
  ];
  for (const [value, problem] of refused) {
    const problems = problemsOf({ CORS_ORIGINS: `https://good.example,${value}` });
    t.equal(problems.length, 1, value);
    t.match(problems[0], problem, value);
    t.notMatch(problems[0], 'secret');
  }
  t.match(
    problemsOf({ CORS_ORIGINS: '*,null' }),
    [/must name each origin.*, must not hold null/],
    'all of them at once',
  );
  t.end();
});
