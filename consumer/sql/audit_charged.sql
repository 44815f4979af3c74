-- One page of the orders that an open gate has charged, if all is well, and of those
-- whose units it has yet to get back, in order of their ids. The column is named in
-- full: "order by id" would be the text above, for which there is no index, and every
-- page would sort all orders.
select id::text, sku_id, quantity, status, release_epoch
  from orders
 where activity_id = $1 and id > coalesce(nullif($2, '')::uuid, '00000000-0000-0000-0000-000000000000')
   and (status in ('held', 'pending_payment', 'confirmed', 'paid') or release_epoch is not null)
 order by orders.id limit $3
