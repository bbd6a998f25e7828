-- Replicas of an earlier release find a user's tokens by the first column of the new index instead. With both indexes, a
-- session would take more than its 250 bytes (docs/adr/0033).
DROP INDEX CONCURRENTLY "tokens_user_id_type_revoked_at_idx";
