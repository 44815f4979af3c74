-- +goose Up
-- The event of a change goes on with the trace of the transaction that made it. One that
-- is traced says so by set_config('seckill.traceparent', ..., true).
alter table outbox
  add column traceparent text default nullif(current_setting('seckill.traceparent', true), '');

-- +goose Down
alter table outbox drop column traceparent;
