CREATE INDEX CONCURRENTLY "wanted_mails_kind_tries_idx" ON "wanted_mails"("kind", "tries", "taken_at", "wanted_at", "id") WHERE "settled_at" IS NULL;
