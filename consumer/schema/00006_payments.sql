-- +goose Up
alter table orders
  add column refund      text check (refund = 'due'),  -- money of this order has to go back
  add column replaced_by uuid;                         -- the order that its late payment bought

-- The next deadline is asked for many times a second.
create index orders_pay_before on orders (pay_before) where status = 'pending_payment';

-- One row a payment that was taken in. An order is paid once.
create table payments (
  id          text collate "C" primary key,  -- as whoever takes the money calls it
  order_id    uuid   not null unique,
  amount      bigint not null,
  -- paid: the order, or the one that replaces it; placing: it came late and is to buy a
  -- new order; refund: it came late and bought nothing.
  state       text not null check (state in ('paid', 'placing', 'refund')),
  replacement uuid,                           -- id under which a late one buys
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now()
);
create index payments_placing on payments (created_at) where state = 'placing';

-- +goose Down
drop table payments;
drop index orders_pay_before;
alter table orders drop column refund, drop column replaced_by;
