-- For this transaction: what the rows of the outbox get as their traceparent.
select set_config('seckill.traceparent', $1, true)
