-- The oldest changes of status that are not published. Status, reason and time are
-- those of the change; the rest is the order's.
select x.id, x.at, x.order_id::text, x.status, coalesce(x.reason, ''),
       o.activity_id, o.sku_id, o.user_id, o.quantity, o.amount, o.created_at, o.decided_at, o.pay_before,
       coalesce(o.refund, ''), coalesce(o.replaced_by::text, ''), coalesce(x.traceparent, '')
  from (select * from outbox order by id limit $1) x
  join orders o on o.id = x.order_id
 order by x.id
