-- +goose Up
-- What operators have changed, who and why; written in the transaction of the change
-- where there is one.
create table activity_log (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default now(),
  actor   text not null,
  action  text not null,
  subject text not null,  -- id of the activity, order or installation
  detail  text not null default '',
  reason  text not null default ''
);
create index activity_log_subject on activity_log (subject, id);
-- What waits for an operator is counted often, and rare.
create index orders_held on orders (activity_id) where status = 'held';

-- +goose Down
drop index orders_held;
drop table activity_log;
