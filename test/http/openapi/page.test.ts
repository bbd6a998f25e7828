import { test } from 'tap';
import { collapseErrors } from '../../../src/http/openapi/page.ts';

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
