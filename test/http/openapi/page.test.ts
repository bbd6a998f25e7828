import { test } from 'tap';
import { collapseErrors, usePairs } from '../../../src/http/openapi/page.ts';

/** As much of React as the plugin needs; test/e2e/docs-page.test.ts runs it in a browser. */
function render(code: string, description?: string) {
  let known: unknown;
  let click = (): void => undefined;
  const Original = () => null;
  const React = {
    useState: <State>(initial: State): [State, (state: State) => void] => [
      (known ?? initial) as State,
      (state) => {
        known = state;
      },
    ],
    createElement: (type: unknown, props: { onClick?: () => void }, ...children: unknown[]) => {
      if (props.onClick) click = props.onClick;
      return type === Original ? ['original'] : [type, ...children];
    },
  };
  const show = collapseErrors().wrapComponents.response(Original, { React });
  const props = { code, className: '', response: { get: () => description } };
  return {
    show: () => show(props),
    click: () => {
      click();
    },
  };
}

test('an error is one line with its codes, until it is clicked', (t) => {
  const error = render('400', '- `bad_request`: Not HTTP.\n- `email_taken`: Another has `it`.');
  t.strictSame(error.show(), ['tr', ['td', '400'], ['td', ['button', 'bad_request, email_taken']]]);
  error.click();
  t.strictSame(error.show(), ['original']);
  t.end();
});

test('everything else is as Swagger UI shows it', (t) => {
  for (const code of ['200', '304', 'default']) t.strictSame(render(code).show(), ['original'], code);
  t.strictSame(render('503').show(), ['tr', ['td', '503'], ['td', ['button', '']]], 'without a description');
  t.end();
});

test('an answer with a pair becomes both tokens of the page, and no other answer does', (t) => {
  const authorized: object[] = [];
  const { setResponse } = usePairs().statePlugins.spec.wrapActions;
  const system = {
    authActions: { authorize: (securities: object) => authorized.push(securities) },
    specSelectors: { specJson: () => ({ getIn: (path: string[]) => path.join('.') }) },
  };
  const set = setResponse((...answer) => answer, system);
  const pair = { access_token: 'a', refresh_token: 'r', user: { id: 7 } };
  t.strictSame(set('/api/auth', 'post', { body: pair }), ['/api/auth', 'post', { body: pair }]);
  t.strictSame(authorized, [
    { bearerAuth: { name: 'bearerAuth', schema: 'components.securitySchemes.bearerAuth', value: 'a' } },
    {
      bearerRefreshToken: {
        name: 'bearerRefreshToken',
        schema: 'components.securitySchemes.bearerRefreshToken',
        value: 'r',
      },
    },
  ]);
  for (const body of [undefined, null, { access_token: 'exchanged' }, { ...pair, refresh_token: 7 }])
    set('/api/auth/token', 'post', { body });
  t.equal(authorized.length, 2);
  t.end();
});
