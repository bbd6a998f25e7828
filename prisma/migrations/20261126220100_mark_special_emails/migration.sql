-- The addresses from before the trigger. `latchkey migrate` computes their keys, because SQL has no UTS 46.
UPDATE "users" SET "email_key" = ''
WHERE "email_key" IS NULL AND ("email" !~ '^[ -~]*$' OR "email" LIKE '%xn--%');
