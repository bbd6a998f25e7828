-- Replicas of 1.0.0 use the index that replaces it.
DROP INDEX CONCURRENTLY "users_changed_at_idx";
