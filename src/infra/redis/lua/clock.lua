-- The clock of the master that holds a key: TIME itself takes none, and in a cluster any master may answer it.
--
-- KEYS  1 any
-- Reply {seconds, µs}
return redis.call('TIME')
