import { test } from 'tap';
import { configWith } from './glewlwyd.ts';

const DEBIAN = `# port to open
port=4593
external_url="http://localhost:4593/"
log_level="INFO"
log_file="/var/log/glewlwyd.log"
hash_algorithm = "SHA512"
@include "/etc/glewlwyd/glewlwyd-db.conf"
`;
const OWN = { port: 20_001, logFile: '/tmp/a.log', database: 'postgres://postgres@127.0.0.1/a$b' };

test('Debian’s configuration of Glewlwyd gets our own port, log and database', (t) => {
  t.equal(
    configWith(DEBIAN, OWN),
    `# port to open
port=20001
bind_address="127.0.0.1"
external_url="http://127.0.0.1:20001/"
log_level="ERROR"
log_file="/tmp/a.log"
hash_algorithm = "SHA512"
database =
{
  type = "postgre"
  conninfo = "postgres://postgres@127.0.0.1/a$b"
};
`,
  );
  t.end();
});

test('a configuration without one of these settings is refused', (t) => {
  for (const setting of ['port=', 'external_url', 'log_level', 'log_file', '@include'])
    t.throws(() => configWith(DEBIAN.replace(`\n${setting}`, '\n#'), OWN), /glewlwyd\.conf has no/, setting);
  t.end();
});
