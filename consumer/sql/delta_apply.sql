-- Changes what a SKU has. Units are taken only of what is free, that is, in no live
-- and no held order; the total stays within bounds. The caller has locked the row.
update skus s
   set total = s.total + $3, stock = s.stock + $3, version = s.version + 1
 where s.activity_id = $1 and s.sku_id = $2
   and s.total::bigint + $3 <= 2147483647
   and ($3 > 0 or s.stock + $3 >= (select coalesce(sum(o.quantity), 0) from orders o
                                    where o.activity_id = s.activity_id and o.sku_id = s.sku_id and o.status = 'held'))
returning s.total
