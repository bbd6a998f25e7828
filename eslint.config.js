import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['**/dist/**', '.stryker-tmp/**', 'src/generated/**', '.tap/**', 'coverage/**'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: {
        project: ['./tsconfig.json', './lab/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      // Numbers and booleans print the way a reader expects; everything else is still refused.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/consistent-type-definitions': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': 'error',
      eqeqeq: 'error',
      'no-restricted-syntax': [
        'error',
        {
          selector: "MemberExpression[object.name='process'][property.name='env']",
          message: 'Only config.ts reads the environment.',
        },
        {
          selector: "CallExpression[callee.object.name='process'][callee.property.name='exit']",
          message: 'Only the edge of the process ends it (server.ts, cli.ts).',
        },
      ],
    },
  },
  {
    files: [
      'src/server.ts',
      'src/cli.ts',
      'src/config/config.ts',
      'src/environment.ts',
      'packages/agent/src/main.ts',
      'packages/load/src/main.ts',
      'test/**/*.ts',
      'lab/**/*.ts',
      'prisma.config.ts',
    ],
    rules: { 'no-restricted-syntax': 'off' },
  },
  {
    // An asynchronous port over maps: its functions must fail by rejecting, and await nothing.
    files: ['src/infra/memory/**/*.ts'],
    rules: { '@typescript-eslint/require-await': 'off' },
  },
  {
    // `npm run build` does not compile it.
    files: ['src/**/*.ts', 'packages/**/*.ts', 'test/**/*.ts'],
    rules: { 'no-restricted-imports': ['error', { patterns: ['**/lab/**'] }] },
  },
  {
    files: ['test/**/*.ts', 'lab/**/*.ts'],
    // tap's own functions return promises that the runner awaits.
    rules: {
      '@typescript-eslint/no-floating-promises': ['error', { allowForKnownSafeCalls: ['test', 'it'] }],
    },
  },
  {
    files: ['**/*.mjs', '**/*.js', '**/*.cjs'],
    languageOptions: {
      globals: {
        module: 'readonly',
        process: 'readonly',
        console: 'readonly',
        URL: 'readonly',
        Buffer: 'readonly',
        AbortSignal: 'readonly',
        fetch: 'readonly',
        setTimeout: 'readonly',
      },
    },
  },
);
