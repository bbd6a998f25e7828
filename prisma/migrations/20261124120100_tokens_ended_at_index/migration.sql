-- Alone in its migration, and without a lock that would hold up logins and refreshes while it reads the table. If it is
-- interrupted, an INVALID index stays: drop it, then run this again (`latchkey migrate --resolve-rolled-back`).
CREATE INDEX CONCURRENTLY "tokens_user_id_ended_at_id_idx" ON "tokens"("user_id", "ended_at", "id");
