-- The oldest changes of status that are not published: whole rows, until there are
-- enough. Status, reason and time are those of the change; the rest is the order's.
select x.id, x.at, o.id::text, x.status, coalesce(x.reason, ''),
       o.activity_id, o.sku_id, o.user_id, o.quantity, o.amount, o.created_at, o.decided_at, o.pay_before,
       coalesce(o.refund, ''), coalesce(o.replaced_by::text, ''), coalesce(x.traceparent, '')
  from (select b.*, sum(b.orders) over (order by b.id) - b.orders as earlier
          from (select * from outbox_batches order by id limit $1) b) x
 cross join lateral unnest(x.order_ids) with ordinality as n (order_id, place)
 cross join lateral (select * from orders where orders.id = n.order_id limit 1) o
 where x.earlier < $1
 order by x.id, n.place
