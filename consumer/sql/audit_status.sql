-- Rows that no path writes: a status or reason outside the lists, or a live order of
-- something that is not for sale.
select o.activity_id, o.sku_id, o.id::text,
       case when o.status not in ('held', 'pending_payment', 'confirmed', 'paid', 'cancelled', 'expired', 'rejected')
            then format('the status %s is not in the list', quote_literal(o.status))
            when o.status = 'rejected'
            then format('the order is rejected for the reason %s, which is not in the list', quote_nullable(o.reason))
            else format('the order is %s, and the ledger has no such SKU', o.status) end
  from orders o
  left join skus s on s.activity_id = o.activity_id and s.sku_id = o.sku_id
 where ($1 = '' or o.activity_id = $1)
   and (o.status not in ('held', 'pending_payment', 'confirmed', 'paid', 'cancelled', 'expired', 'rejected')
        or o.status = 'rejected' and (o.reason is null or o.reason not in ('sold-out', 'limit-reached', 'stale', 'dropped'))
        or o.status in ('pending_payment', 'confirmed', 'paid') and s.sku_id is null)
 order by 3 limit $2
